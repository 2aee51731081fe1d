// Loaded by the OpenCode server that Cortex starts. What a tool starts is marked as its session's, so that it can be ended
// with it, and does not get what is only for the server.
import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

// One file for each session, by OpenCode's name, with the name that Cortex has for it.
const owners = join(dirname(fileURLToPath(import.meta.url)), "owners")
const own = ["OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME", "OPENCODE_CONFIG_CONTENT", "OPENCODE_AUTH_CONTENT"]
const hidden = own.concat(Object.keys(process.env).filter((name) => name.endsWith("_API_KEY")))
// Sub-agents have sessions of their own.
const parents = new Map()

function owner(session) {
  for (let id = session, depth = 0; id && depth < 32; id = parents.get(id), depth++) {
    try {
      return readFileSync(join(owners, id), "utf8")
    } catch {}
  }
  return session
}

// Whoever started the server is gone: it serves nobody.
const starter = process.ppid
setInterval(() => {
  if (process.ppid !== starter) process.exit(1)
}, 1000).unref()

export const Cortex = async () => ({
  event: async ({ event }) => {
    const info = event.type === "session.created" ? event.properties.info : undefined
    if (info?.parentID) parents.set(info.id, info.parentID)
  },
  "shell.env": async (input, output) => {
    for (const name of hidden) output.env[name] = undefined
    if (input.sessionID) output.env.CORTEX_OWNER = owner(input.sessionID)
  },
})
