// A foreign OTLP receiver (protobufjs and grpc-js instead of prost and tonic) on loopback ports that are free.
//
//   node mock.js MODULES        MODULES: what tests/receivers/fetch prints
//
// Prints JSON lines: first {"grpc": URL, "http": URL}, then for each request {"signal": ..., "body": ...}, the body as OTLP's JSON
// has it but for attributes, which are one object. Ends when its standard input closes, so that it never outlives who started it.

'use strict';

const path = require('path');

const folder = path.join(process.argv[2], '@elastic/mockotlpserver');
const {MockOtlpServer} = require(folder);
// Numbers of 64 bits as texts, ids in hex, attributes as one object.
const {jsonStringifyTrace, jsonStringifyMetrics, jsonStringifyLogs} = require(path.join(folder, 'lib/normalize'));

const print = (line) => process.stdout.write(line + '\n');
const printer = (signal, stringify) => (body) => {
    try {
        print(`{"signal": "${signal}", "body": ${stringify(body, {indent: 0, normAttributes: true})}}`);
    } catch (error) {
        // The receiver would swallow it.
        print(JSON.stringify({signal: 'failed', body: String(error)}));
    }
};

async function main() {
    const server = new MockOtlpServer({
        // It logs to standard output, which is ours.
        logLevel: 'fatal',
        services: ['http', 'grpc'],
        httpHostname: '127.0.0.1',
        httpPort: 0,
        grpcHostname: '127.0.0.1',
        grpcPort: 0,
        onTrace: printer('traces', jsonStringifyTrace),
        onMetrics: printer('metrics', jsonStringifyMetrics),
        onLogs: printer('logs', jsonStringifyLogs),
    });
    await server.start();
    print(JSON.stringify({grpc: String(server.grpcUrl), http: String(server.httpUrl)}));
}

// A pipe is written behind our back: what was printed has to be through before the end.
process.stdin.on('end', () => process.stdout.write('', () => process.exit(0)));
process.stdin.resume();
main().catch((error) => {
    console.error(error);
    process.exit(1);
});
