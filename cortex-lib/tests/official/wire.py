"""Holds every message that the endpoint sends against the schema of its version, as `mcp-types` was generated from it:
nothing is missing, nothing is of another type, and nothing is there that the schema does not know."""

import http.client
import json
import os
from urllib.parse import urlsplit

from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCResponse
from mcp_types import MissingRequiredClientCapabilityErrorData, UnsupportedProtocolVersionErrorData
from mcp_types.methods import SERVER_NOTIFICATIONS, SERVER_RESULTS
from pydantic import TypeAdapter, ValidationError

URL = urlsplit(os.environ["CORTEX_MCP_URL"])
AGENT = {"agent_id": os.environ["AGENT_ID"]}
META = "io.modelcontextprotocol/"
NEWEST = "2026-07-28"
EARLIER = ["2025-11-25", "2025-06-18", "2025-03-26"]
ERROR_DATA = {
    -32021: MissingRequiredClientCapabilityErrorData,
    -32022: UnsupportedProtocolVersionErrorData,
}
CLIENT = {"name": "wire", "version": "1"}

problems: list[str] = []
seen: dict[str, list[str]] = {}


def fits(kind, part, where: str) -> None:
    """Whether `part` is all of `kind`, and nothing else."""
    try:
        adapter = TypeAdapter(kind)
        read = adapter.validate_json(json.dumps(part), strict=True, by_name=False)
        known = adapter.dump_python(read, by_alias=True, mode="json", exclude_unset=True)
        if known != part:
            problems.append(f"{where}: the schema knows {known}, and {part} was sent")
    except ValidationError as error:
        problems.append(f"{where}: {error}")


def check(version: str, method: str, message: dict) -> str:
    """Checks one message, and tells what it is."""
    where = f"{version} {method}"
    if "method" in message:
        fits(JSONRPCNotification, message, where)
        fits(SERVER_NOTIFICATIONS[message["method"], version], message, where)
        return message["method"]
    if message["id"] != 1:
        problems.append(f"{where}: it answers {message['id']!r}")
    if "error" in message:
        fits(JSONRPCError, message, where)
        error = message["error"]
        if kind := ERROR_DATA.get(error["code"]):
            fits(kind, error["data"], where)
        return str(error["code"])
    fits(JSONRPCResponse, message, where)
    fits(SERVER_RESULTS[method, version], message["result"], where)
    return "failure" if message["result"].get("isError") else "result"


def messages(answer: http.client.HTTPResponse) -> list[dict]:
    """What an answer consists of: one message, or those of its stream."""
    said = answer.read().decode()
    if answer.getheader("Content-Type", "").startswith("text/event-stream"):
        return [json.loads(line[5:]) for line in said.splitlines() if line.startswith("data:")]
    return [json.loads(said)]


def ask(version: str, method: str, params: dict, **said: str) -> None:
    """Sends a request as a client of `version` does. `said` replaces headers."""
    headers = {
        "Authorization": f"Bearer {os.environ['CORTEX_MCP_TOKEN']}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if method != "initialize":
        headers["MCP-Protocol-Version"] = version
    if version >= NEWEST:
        meta = {"protocolVersion": version, "clientCapabilities": {}, "clientInfo": CLIENT}
        named = {META + key: value for key, value in meta.items()}
        params = {**params, "_meta": {**named, **params.get("_meta", {})}}
        headers |= {"Mcp-Method": method, "Mcp-Name": str(params.get("name", ""))}
    headers |= {name.replace("_", "-"): value for name, value in said.items()}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    connection = http.client.HTTPConnection(URL.hostname, URL.port)
    connection.request("POST", URL.path, json.dumps(request), headers)
    answer = connection.getresponse()
    # What is not spoken is answered in the newest version.
    spoken = version if version in EARLIER else NEWEST
    told = [check(spoken, method, message) for message in messages(answer)]
    seen.setdefault(version, []).append(f"{method}: {answer.status} {', '.join(told)}")
    connection.close()


def wait(version: str) -> None:
    """Calls a tool that takes longer than a client is left without a word."""
    goal = {"project_id": os.environ["PROJECT_ID"], "goal": "Count the words."}
    ask(version, "tools/call", {"name": "plan_objective", "arguments": goal, "_meta": {"progressToken": "t"}})


def call(version: str, name, arguments, **said: str) -> None:
    ask(version, "tools/call", {"name": name, "arguments": arguments}, **said)


def walk(version: str) -> None:
    """What both kinds of versions have."""
    ask(version, "tools/list", {})
    call(version, "list_projects", {})
    call(version, "get_agent_status", AGENT)
    call(version, "poll_agent_events", AGENT)
    call(version, "start_agent", AGENT)
    call(version, "get_agent_status", {"agent_id": "nobody"})
    call(version, "get_agent_status", {"colour": "red"})
    call(version, "get_agent_status", [])
    call(version, "dance", {})
    ask(version, "tools/call", {})
    ask(version, "resources/list", {})
    ask(version, "dance", {})


for version in EARLIER:
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    ask(version, "initialize", hello)
    ask(version, "initialize", {})
    ask(version, "ping", {})
    walk(version)
wait(EARLIER[0])
ask(NEWEST, "server/discover", {})
ask(NEWEST, "ping", {})
walk(NEWEST)
wait(NEWEST)
call(NEWEST, "list_projects", {}, Mcp_Name="list_agents")
call(NEWEST, "list_projects", {}, MCP_Protocol_Version="2025-11-25")
ask(NEWEST, "tools/list", {"_meta": {META + "clientCapabilities": 7}})
ask("2031-01-01", "tools/list", {})
print(json.dumps({"problems": problems, "seen": seen}))
