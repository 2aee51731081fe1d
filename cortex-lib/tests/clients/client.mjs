// The official TypeScript client: lists the tools, calls one that answers and one that fails.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { CORTEX_MCP_URL: url, CORTEX_MCP_TOKEN: token } = process.env;
const client = new Client({ name: "cortex-test", version: "1" });
const headers = { Authorization: `Bearer ${token}` };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const { tools } = await client.listTools();
const good = await client.callTool({ name: "list_projects", arguments: {} });
const bad = await client.callTool({ name: "get_agent_status", arguments: { agent_id: "nobody" } });
const unknown = await client.callTool({ name: "dance" }).then(() => null, (error) => error.code);
console.log(
  JSON.stringify({
    server: client.getServerVersion().name,
    tools: tools.map((tool) => tool.name),
    good: good.structuredContent,
    bad: [bad.isError, bad.structuredContent.error.code],
    unknown,
  }),
);
await client.close();
