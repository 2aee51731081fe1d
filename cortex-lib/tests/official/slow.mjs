// An official TypeScript client waits for a call that takes longer than its minute, and hears of it meanwhile. The
// first argument is its package.
const sdk = process.argv[1];
const first = sdk === "@modelcontextprotocol/sdk";
const { Client } = await import(first ? `${sdk}/client/index.js` : sdk);
const { StreamableHTTPClientTransport } = await import(first ? `${sdk}/client/streamableHttp.js` : sdk);

const { CORTEX_MCP_URL: url, CORTEX_MCP_TOKEN: token, PROJECT_ID: project_id } = process.env;
const client = new Client({ name: "cortex-test", version: "1" });
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));

const told = [];
const options = { onprogress: (progress) => told.push(progress), resetTimeoutOnProgress: true };
const call = { name: "plan_objective", arguments: { project_id, goal: "Count the words." } };
const begun = performance.now();
const answer = await (first ? client.callTool(call, undefined, options) : client.callTool(call, options));
console.log(
  JSON.stringify({
    seconds: (performance.now() - begun) / 1000,
    title: answer.structuredContent?.draft?.title ?? answer,
    progress: told.map(({ progress }) => progress),
    message: told.at(-1)?.message,
  }),
);
await client.close();
