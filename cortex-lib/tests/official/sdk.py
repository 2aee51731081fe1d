"""The official Python client: lists the tools, calls one that answers and one that fails, and gives up on one that
waits. The first argument says how it finds out which version is spoken."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def projects(client: Client) -> dict:
    answer = await client.call_tool("list_projects", {})
    return {"projects": len(answer.structured_content["projects"])}


async def gives_up(client: Client) -> bool:
    agent = {"agent_id": os.environ["AGENT_ID"]}
    seen = await client.call_tool("poll_agent_events", agent)
    wait = {**agent, "after": seen.structured_content["next_after"], "wait_ms": 30000}
    poll = asyncio.ensure_future(client.call_tool("poll_agent_events", wait))
    # It is under way when another call that was sent after it has its answer.
    await projects(client)
    poll.cancel()
    try:
        await poll
        return False
    except asyncio.CancelledError:
        return True


@asynccontextmanager
async def way():
    if bridge := os.environ.get("BRIDGE"):
        yield stdio_client(StdioServerParameters(command=bridge, args=["mcp"], env=dict(os.environ)))
        return
    headers = {"Authorization": f"Bearer {os.environ['CORTEX_MCP_TOKEN']}"}
    async with create_mcp_http_client(headers=headers) as http:
        yield streamable_http_client(os.environ["CORTEX_MCP_URL"], http_client=http)


async def talk() -> dict:
    async with way() as transport:
        async with Client(transport, mode=sys.argv[1]) as client:
            tools = (await client.list_tools()).tools
            good = await projects(client)
            bad = await client.call_tool("get_agent_status", {"agent_id": "nobody"})
            try:
                await client.call_tool("dance", {})
                unknown = None
            except MCPError as error:
                unknown = error.error.code
            return {
                "version": client.protocol_version,
                "server": client.server_info.name,
                "tools": [tool.name for tool in tools],
                "good": good,
                "bad": [bad.is_error, bad.structured_content["error"]["code"]],
                "unknown": unknown,
                "cancelled": await gives_up(client),
                "after": await projects(client),
            }


print(json.dumps(asyncio.run(talk())))
