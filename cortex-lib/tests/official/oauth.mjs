// An official TypeScript client that knows nothing but a public address: it finds out how to get in, asks for the
// person's consent, works, and renews its access. The first argument is its package.
const sdk = process.argv[1];
const first = sdk === "@modelcontextprotocol/sdk";
const { Client } = await import(first ? `${sdk}/client/index.js` : sdk);
const { StreamableHTTPClientTransport } = await import(first ? `${sdk}/client/streamableHttp.js` : sdk);

const url = new URL(process.env.CORTEX_MCP_URL);

// What a client keeps between its starts.
const redirectUrl = "http://127.0.0.1:4000/callback";
const kept = {};
const provider = {
  redirectUrl,
  clientMetadata: {
    client_name: "Some client",
    redirect_uris: [redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => "a state",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (discovery) => void (kept.discovery = discovery),
  invalidateCredentials: (scope) => void (scope === "all" || scope === "tokens" ? delete kept.tokens : 0),
  redirectToAuthorization: (page) => void (kept.page = page),
};

const connect = async () => {
  const client = new Client({ name: "cortex-test", version: "1" });
  const transport = new StreamableHTTPClientTransport(url, { authProvider: provider });
  const refused = await client.connect(transport).then(() => null, (error) => error);
  return { client, transport, refused };
};
const call = (client, name, args) => client.callTool({ name, arguments: args });

// Nobody is let in by asking.
const denied = await connect();
const { searchParams: back } = await browse(kept.page, "deny");
const told = { error: back.get("error"), state: back.get("state"), iss: back.get("iss") };

const stranger = await connect();
const { searchParams: answered } = await browse(kept.page, "allow");
if (first) await stranger.transport.finishAuth(answered.get("code"));
else await stranger.transport.finishAuth(answered);
const { client, refused } = await connect();
const { tools } = await client.listTools();
const good = (await call(client, "list_projects", {})).structuredContent.projects.length;
const audience = new URL(kept.page).searchParams.get("resource");

// Its access is over: it renews it by itself, and the call goes through.
const before = kept.tokens;
kept.tokens = { ...before, access_token: "cortex_access_over" };
const again = (await call(client, "list_projects", {})).structuredContent.projects.length;
const isRenewed = kept.tokens.refresh_token !== before.refresh_token;

// Whoever uses an old refresh token ends it for everybody: one of the two is a thief.
const stolen = new URLSearchParams({
  grant_type: "refresh_token",
  client_id: kept.client.client_id,
  refresh_token: before.refresh_token,
});
const theft = await (await fetch(new URL("/token", url), { method: "POST", body: stolen })).json();
const over = await call(client, "list_projects", {}).then(() => "no end", () => "an end");

await tell({
  refused: [denied.refused.constructor.name, stranger.refused.constructor.name, refused],
  told,
  audience,
  tools: tools.map((tool) => tool.name),
  good,
  again,
  isRenewed,
  theft: theft.error,
  over,
});
process.exit(0);
