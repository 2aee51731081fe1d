"""The official Python client: lists the tools, calls one that answers and one that fails."""

import asyncio
import json
import os

from mcp import Client, MCPError
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def talk() -> dict:
    headers = {"Authorization": f"Bearer {os.environ['CORTEX_MCP_TOKEN']}"}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(os.environ["CORTEX_MCP_URL"], http_client=http)
        async with Client(transport) as client:
            tools = (await client.list_tools()).tools
            good = await client.call_tool("list_projects", {})
            bad = await client.call_tool("get_agent_status", {"agent_id": "nobody"})
            try:
                await client.call_tool("dance", {})
                unknown = None
            except MCPError as error:
                unknown = error.error.code
            return {
                "server": client.server_info.name,
                "tools": [tool.name for tool in tools],
                "good": good.structured_content,
                "bad": [bad.is_error, bad.structured_content["error"]["code"]],
                "unknown": unknown,
            }


print(json.dumps(asyncio.run(talk())))
