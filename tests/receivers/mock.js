// A third-party OTLP receiver (protobufjs and grpc-js instead of prost and tonic) on free loopback ports.
//
//   node mock.js MODULES        MODULES: the folder that tests/receivers/fetch prints
//
// Prints JSON lines: first {"grpc": URL, "http": URL}, then for each request {"signal": ..., "body": ...}. The body is OTLP's JSON, but
// attributes are one object. Exits when its standard input closes, so that it cannot outlive its parent.

'use strict';

const path = require('path');

const folder = path.join(process.argv[2], '@elastic/mockotlpserver');
const {MockOtlpServer} = require(folder);
// Prints 64-bit numbers as strings, ids in hex, and attributes as one object.
const {jsonStringifyTrace, jsonStringifyMetrics, jsonStringifyLogs} = require(path.join(folder, 'lib/normalize'));

const print = (line) => process.stdout.write(line + '\n');
const printer = (signal, stringify) => (body) => {
    try {
        print(`{"signal": "${signal}", "body": ${stringify(body, {indent: 0, normAttributes: true})}}`);
    } catch (error) {
        // The receiver would ignore the error.
        print(JSON.stringify({signal: 'failed', body: String(error)}));
    }
};

async function main() {
    const server = new MockOtlpServer({
        // The server logs to standard output, which is reserved for the records.
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

// Writes to a pipe are asynchronous: all printed lines must be written before the exit.
process.stdin.on('end', () => process.stdout.write('', () => process.exit(0)));
process.stdin.resume();
main().catch((error) => {
    console.error(error);
    process.exit(1);
});
