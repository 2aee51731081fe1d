// The official TypeScript SDK, set up as its documentation says for a server without sessions. The first line of its
// input holds what the two tools answer; it says its port and ends with its input.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const lines = createInterface({ input: process.stdin });
const [list, cancel] = JSON.parse((await lines[Symbol.asyncIterator]().next()).value);
lines.on("close", () => process.exit());

const answer = (value) => ({
  content: [{ type: "text", text: JSON.stringify(value) }],
  structuredContent: value,
});

const open = () => {
  const server = new McpServer({ name: "peer", version: "1" });
  server.registerTool("list_tasks", { inputSchema: {} }, async () => answer(list));
  server.registerTool("cancel_task", { inputSchema: { task_id: z.string() } }, async () => answer(cancel));
  return server;
};

const http = createServer(async (request, response) => {
  const server = open();
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  response.on("close", () => {
    transport.close();
    server.close();
  });
  await server.connect(transport);
  await transport.handleRequest(request, response);
});
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
