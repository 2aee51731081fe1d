"""The official Python client waits for a call that takes longer than a minute, and hears of it meanwhile. The first
argument says how it finds out which version is spoken."""

import asyncio
import json
import os
import sys
import time

from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def talk() -> dict:
    headers = {"Authorization": f"Bearer {os.environ['CORTEX_MCP_TOKEN']}"}
    told = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(os.environ["CORTEX_MCP_URL"], http_client=http)
        async with Client(transport, mode=sys.argv[1]) as client:
            goal = {"project_id": os.environ["PROJECT_ID"], "goal": "Count the words."}
            begun = time.monotonic()
            answer = await client.call_tool("plan_objective", goal, progress_callback=hear)
            return {
                "seconds": time.monotonic() - begun,
                "title": answer.structured_content["draft"]["title"],
                "progress": [progress for progress, _ in told],
                "message": told[-1][1] if told else None,
            }


print(json.dumps(asyncio.run(talk())))
