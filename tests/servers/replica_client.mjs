// Makes calls of all kinds in one session, and says of each how it went, one line of JSON each.
import { pathToFileURL } from "node:url";

const [url, era, sdk, given] = process.argv.slice(2);
const { arguments: args, expected, answer, seconds } = JSON.parse(given);
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(sdk).href);

const mode = era === "modern" ? "auto" : "legacy";
const client = new Client(
  { name: "replica-client", version: "1" },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: answer }));
client.onerror = () => {}; // lost connections: what matters is how the calls end

// The SDK waits for the answer of a request of 2026-07-28 also when its stream is cut, though nothing goes on
// with it: whoever calls has to look. Streams of the handshake era are gone on with by the SDK itself.
let lost = () => {};
async function watched(input, init) {
  const response = await fetch(input, init);
  if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
    const [ours, theirs] = response.body.tee();
    Object.defineProperty(response, "body", { value: theirs });
    ours.pipeTo(new WritableStream()).catch((error) => lost(error));
  }
  return response;
}
const transport = new StreamableHTTPClientTransport(new URL(url), mode === "auto" ? { fetch: watched } : {});
await client.connect(transport);

const order = ["say", "count", "say", "test_elicitation"];
for (let number = 0; ; number++) {
  const tool = order[number % order.length];
  const began = Date.now() / 1000;
  let progress = 0;
  let error = null;
  try {
    const calling = client.callTool(
      { name: tool, arguments: args[tool] },
      { timeout: seconds * 1000, ...(tool === "count" ? { onprogress: () => progress++ } : {}) },
    );
    calling.catch(() => {});
    const done = await Promise.race([calling, new Promise((_, failed) => (lost = failed))]);
    const text = JSON.stringify(done.content);
    if (done.isError || !text.includes(expected[tool])) error = text;
  } catch (failure) {
    error = String(failure);
  }
  const line = { tool, began, ended: Date.now() / 1000, progress, error, session: transport.sessionId ?? null };
  await new Promise((written) => process.stdout.write(JSON.stringify(line) + "\n", written));
}
