"""An independent client: executes the commands on standard input, one JSON object per line, and prints the results.

    client.py MODE URL                http://HOST:PORT/mcp
    client.py MODE COMMAND WORD...    over standard input and output of that command

MODE is `auto` (the newest protocol, without a handshake) or `legacy` (with a handshake). A line is {"tool": NAME,
"arguments": {}}, {"read": URI} or {"list": "tools"}; the client exits when its input ends.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def answer(client, asked):
    if "tool" in asked:
        result = await client.call_tool(asked["tool"], asked.get("arguments", {}))
        return {"is_error": bool(result.is_error), "answer": result.structured_content}
    if "read" in asked:
        result = await client.read_resource(asked["read"])
        return {"text": result.contents[0].text}
    if asked["list"] == "resources":
        return {"names": [str(resource.uri) for resource in (await client.list_resources()).resources]}
    return {"names": [tool.name for tool in (await client.list_tools()).tools]}


async def main():
    mode, place, *words = sys.argv[1:]
    server = place if place.startswith("http") else StdioServerParameters(command=place, args=words)
    async with Client(server, mode=mode) as client:
        print(json.dumps({"protocol": client.protocol_version, "instructions": client.instructions}), flush=True)
        for line in sys.stdin:
            try:
                got = await answer(client, json.loads(line))
            except Exception as error:  # The client's view of a refusal is also a result.
                got = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(got), flush=True)


asyncio.run(main())
