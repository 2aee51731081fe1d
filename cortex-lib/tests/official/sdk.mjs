// An official TypeScript client: lists the tools, calls one that answers and one that fails, and gives up on one
// that waits. The first argument is its package.
const sdk = process.argv[1];
const first = sdk === "@modelcontextprotocol/sdk";
const { Client } = await import(first ? `${sdk}/client/index.js` : sdk);
const { StreamableHTTPClientTransport } = await import(first ? `${sdk}/client/streamableHttp.js` : sdk);
const { StdioClientTransport } = await import(first ? `${sdk}/client/stdio.js` : `${sdk}/stdio`);

const { BRIDGE: bridge, CORTEX_MCP_URL: url, CORTEX_MCP_TOKEN: token, AGENT_ID: agent_id } = process.env;
const client = new Client({ name: "cortex-test", version: "1" });
const overHttp = () => {
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  return new StreamableHTTPClientTransport(new URL(url), { requestInit });
};
const overLines = () => new StdioClientTransport({ command: bridge, args: ["mcp"], env: process.env });
const transport = bridge ? overLines() : overHttp();
await client.connect(transport);

const call = (name, args, options) =>
  first
    ? client.callTool({ name, arguments: args }, undefined, options)
    : client.callTool({ name, arguments: args }, options);
const projects = async () => ({ projects: (await call("list_projects", {})).structuredContent.projects.length });

const { tools } = await client.listTools();
const good = await projects();
const bad = await call("get_agent_status", { agent_id: "nobody" });
const unknown = await call("dance").then(() => null, (error) => error.code);
const { next_after: after_all } = (await call("poll_agent_events", { agent_id })).structuredContent;
const giveUp = new AbortController();
const wait = { agent_id, after: after_all, wait_ms: 30000 };
const poll = call("poll_agent_events", wait, { signal: giveUp.signal });
// It is under way when another call that was sent after it has its answer.
await projects();
giveUp.abort("enough");
const cancelled = await poll.then(() => false, () => true);
const after = await projects();
console.log(
  JSON.stringify({
    version: transport.protocolVersion ?? null,
    server: client.getServerVersion().name,
    tools: tools.map((tool) => tool.name),
    good,
    bad: [bad.isError, bad.structuredContent.error.code],
    unknown,
    cancelled,
    after,
  }),
);
await client.close();
