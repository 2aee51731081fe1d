// The suite that judges authorization servers, with a client that was registered for it. The arguments are the issuer,
// the suite and a free port.
import { spawn } from "node:child_process";

const [issuer, suite, port] = process.argv.slice(1);
const registration = { client_name: "Suite", redirect_uris: [`http://127.0.0.1:${port}/callback`] };
const registered = await fetch(new URL("/register", issuer), {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(registration),
});
const { client_id } = await registered.json();
const about = ["--url", issuer, "--client-id", client_id, "--resource", `${issuer}/mcp`, "--port", port];
const running = spawn(process.execPath, [suite, "authorization", ...about]);
const ended = new Promise((resolve) => running.once("close", resolve));
const lines = [];
for await (const line of createInterface({ input: running.stdout })) {
  lines.push(line);
  if (line.startsWith(`${issuer}/authorize?`)) await fetch(await browse(line, "allow"));
}
await tell({ code: await ended, said: lines.join("\n") });
process.exit(0);
