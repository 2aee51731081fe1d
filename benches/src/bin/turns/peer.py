# Takes turns over claude-agent-sdk: one for each line of the standard input, and prints how many seconds it took.
import asyncio
import json
import sys
import time

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, PermissionResultAllow, ResultMessage


async def allow(tool, arguments, context):
    return PermissionResultAllow(updated_input=arguments)


async def main():
    place = json.loads(sys.argv[1])
    options = ClaudeAgentOptions(
        cli_path=place["cli"],
        cwd=place["cwd"],
        env=place["env"],
        system_prompt={"type": "preset", "preset": "claude_code"},
        setting_sources=[],
        permission_mode="default",
        include_partial_messages=True,
        can_use_tool=allow,
        disallowed_tools=place["withheld"],
    )
    lines = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
    async with ClaudeSDKClient(options=options) as client:
        print("ready", flush=True)
        while text := await lines.get():
            began = time.perf_counter()
            await client.query(text.strip())
            async for message in client.receive_messages():
                if isinstance(message, ResultMessage):
                    break
            print(time.perf_counter() - began, flush=True)


asyncio.run(main())
