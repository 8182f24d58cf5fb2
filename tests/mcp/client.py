"""A client that is not ours: does what standard input says, one JSON object a line, and prints what it got.

    client.py MODE URL                http://HOST:PORT/mcp
    client.py MODE COMMAND WORD...    over standard input and output of that command

MODE is `auto` (the newest protocol, without a handshake) or `legacy` (with one). A line is {"tool": NAME, "arguments": {}},
{"read": URI} or {"list": "tools"}; it ends with its input.
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
            except Exception as error:  # What a client makes of a refusal is an answer, too.
                got = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(got), flush=True)


asyncio.run(main())
