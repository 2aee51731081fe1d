// The person at a browser: opens the page to which a client leads, and follows where it leads when the person at the
// other end of this program has decided.
import { createInterface } from "node:readline";

const heard = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
// Says something, and waits until that is done.
const tell = async (said) => {
  console.log(JSON.stringify(said));
  await heard.next();
};

const browse = async (start, wish) => {
  const asked = await fetch(start, { redirect: "manual" });
  const page = new URL(asked.headers.get("location"), start);
  const shown = await (await fetch(page)).text();
  await tell({ [wish]: shown.match(/<p class="code">([^<]+)</)[1] });
  const decided = await fetch(page, { redirect: "manual" });
  return new URL(decided.headers.get("location"));
};

