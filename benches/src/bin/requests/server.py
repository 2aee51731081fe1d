"""The official Python SDK, set up as its documentation says for a server without sessions. The first line of its input
holds what the two tools answer; it says its port and ends with its input."""

import json
import os
import socket
import sys
import threading

import uvicorn
from mcp.server.mcpserver import MCPServer

LIST, CANCEL = json.loads(sys.stdin.readline())
server = MCPServer("peer", log_level="ERROR")


@server.tool()
def list_tasks() -> dict:
    return LIST


@server.tool()
def cancel_task(task_id: str) -> dict:
    return CANCEL


def end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = server.streamable_http_app(json_response=True, stateless_http=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])
