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
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);

const order = ["say", "count", "say", "test_elicitation"];
for (let number = 0; ; number++) {
  const tool = order[number % order.length];
  const began = Date.now() / 1000;
  let progress = 0;
  let error = null;
  try {
    const done = await client.callTool(
      { name: tool, arguments: args[tool] },
      { timeout: seconds * 1000, ...(tool === "count" ? { onprogress: () => progress++ } : {}) },
    );
    const text = JSON.stringify(done.content);
    if (done.isError || !text.includes(expected[tool])) error = text;
  } catch (failure) {
    error = String(failure);
  }
  const line = { tool, began, ended: Date.now() / 1000, progress, error, session: transport.sessionId ?? null };
  await new Promise((written) => process.stdout.write(JSON.stringify(line) + "\n", written));
}
