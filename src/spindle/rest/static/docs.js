// Lists the tools of openapi.json, makes a form for each, and calls them.
// Every text comes from servers that nobody here knows, so it is only ever set as text.
"use strict";

const WHOLE = "application/vnd.spindle.result+json";
const MOST_LISTED = 500;
const at = (id) => document.getElementById(id);
let token = "";
let api = null;
let tools = [];
let asked = 0;

// Signs that a page would obey or not show: controls, marks of direction, joiners, tags.
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

function visible(text) {
  return String(text).replaceAll("\r\n", "\n").replace(HIDDEN, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

function make(tag, properties = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("aria-") || key === "for" || key === "role") node.setAttribute(key, value);
    else node[key] = key === "textContent" || key === "title" ? visible(value) : value;
  }
  node.append(...inside.filter((part) => part !== null && part !== undefined));
  return node;
}

function headers(more) {
  return token ? { ...more, authorization: `Bearer ${token}` } : more;
}

// --- the list

async function load() {
  const mine = ++asked;
  at("count").textContent = "Reading the tools…";
  let answer;
  try {
    answer = await fetch("openapi.json", { headers: headers({ accept: "application/json" }), cache: "no-store" });
  } catch {
    return failed(mine, "The server does not answer.", "Is it still running? Reload this page to try again.");
  }
  if (mine !== asked) return;
  if (answer.status === 401 || answer.status === 403) {
    at("login").hidden = false;
    const what = token ? "The server does not accept this token." : "This server wants a token.";
    return failed(mine, what, "Put it into the field above. It stays in this page, and goes to this server only.");
  }
  const found = await answer.json().catch(() => null);
  if (!answer.ok || !found || typeof found.paths !== "object") {
    return failed(mine, `The server answered with status ${answer.status}.`, found?.message ?? "");
  }
  api = found;
  at("login").hidden = !found.security;
  tools = Object.entries(found.paths).filter(([, way]) => way?.post).map(([path, way]) => ({
    name: String(way.post.operationId ?? path), path, source: String(way.post.tags?.[0] ?? ""),
    about: String(way.post.summary ?? way.post.description ?? ""), post: way.post,
  }));
  list();
  show();
}

function failed(mine, what, todo) {
  if (mine !== asked) return;
  api = null;
  tools = [];
  at("tools").replaceChildren();
  at("count").textContent = "";
  document.body.classList.add("one");
  at("detail").replaceChildren(make("h1", { textContent: what }), make("p", { textContent: todo }));
}

function list() {
  const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = tools.filter((tool) => {
    const text = `${tool.name} ${tool.source} ${tool.about}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const total = tools.length === 1 ? "1 tool" : `${tools.length} tools`;
  at("count").textContent = words.length ? `${fits.length} of ${total}` : total;
  const nodes = [];
  let group = null;
  for (const tool of [...fits].sort((a, b) => a.source.localeCompare(b.source)).slice(0, MOST_LISTED)) {
    if (tool.source !== group) nodes.push(make("div", { class: "group", textContent: group = tool.source }));
    const link = make("a", { class: "tool", href: `#${encodeURIComponent(tool.name)}`, title: tool.about },
      make("span", { class: "name", textContent: tool.name }),
      make("span", { class: "about", textContent: tool.about.split("\n")[0] }));
    if (tool.name === chosen()) link.setAttribute("aria-current", "true");
    nodes.push(link);
  }
  if (fits.length > MOST_LISTED) {
    nodes.push(make("p", { class: "muted", textContent: `The first ${MOST_LISTED} are shown. Search for others.` }));
  }
  if (!tools.length) nodes.push(make("p", { textContent: "There are no tools that you may call here." }));
  at("tools").replaceChildren(...nodes);
}

function chosen() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

// --- one tool

function show() {
  if (!api) return;
  const name = chosen();
  const tool = tools.find((other) => other.name === name);
  document.body.classList.toggle("one", Boolean(name));
  document.title = `${tool ? tool.name : "Try the tools"} · Spindle`;
  if (!tool) {
    const what = name ? "There is no such tool" : "Which tool do you want to try?";
    const todo = name ? `Nothing is called ${name} here, or you may not call it.` : "Choose one from the list.";
    at("detail").replaceChildren(back(), make("h1", { textContent: what }), make("p", { textContent: todo }));
    return;
  }
  const schema = resolved(tool.post.requestBody?.content?.["application/json"]?.schema ?? {});
  const form = new Form(schema);
  const result = make("div", { class: "result" });
  const button = make("button", { class: "primary", type: "submit", textContent: "Call" });
  const node = make("form", { autocomplete: "off", noValidate: true }, form.node,
    make("div", { class: "actions" }, button, make("span", { class: "muted mono", textContent: `POST ${tool.path}` })));
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    call(tool, form, button, result);
  });
  at("detail").replaceChildren(back(), make("h1", { class: "mono", textContent: tool.name }),
    make("p", { textContent: tool.post.summary ?? "", hidden: !tool.post.summary }),
    make("p", { class: "description muted", textContent: tool.post.description ?? "" }), node, result);
  at("detail").scrollTop = 0;
}

function back() {
  return make("a", { class: "back", href: "#", textContent: "← All tools" });
}

function resolved(schema, depth = 0) {
  if (typeof schema !== "object" || schema === null || depth > 20) return {};
  if (typeof schema.$ref === "string") {
    const path = schema.$ref.replace(/^#\//, "").split("/");
    const found = path.reduce((part, key) => part?.[key.replace(/~1/g, "/").replace(/~0/g, "~")], api);
    const { $ref, ...rest } = schema;
    return { ...resolved(found, depth + 1), ...rest };
  }
  const options = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(options)) {
    const real = options.filter((option) => option?.type !== "null");
    if (real.length === 1) {
      const { anyOf, oneOf, ...rest } = schema;
      return { ...resolved(real[0], depth + 1), ...rest };
    }
  }
  return schema;
}

function kindOf(schema) {
  const type = Array.isArray(schema.type) ? schema.type.filter((name) => name !== "null") : [schema.type];
  if (Array.isArray(schema.enum)) return "enum";
  return type.length === 1 && ["string", "integer", "number", "boolean"].includes(type[0]) ? type[0] : "json";
}

// A schema as lines to read: name, type, and what it is for.
function outline(schema, name = "", indent = "", depth = 0, left = { lines: 200 }) {
  const known = resolved(schema);
  const type = Array.isArray(known.enum) ? known.enum.map((value) => JSON.stringify(value)).join(" | ")
    : Array.isArray(known.type) ? known.type.join(" | ") : String(known.type ?? "any");
  const about = known.description ? `  ${String(known.description).split("\n")[0].slice(0, 100)}` : "";
  const lines = [`${indent}${name ? `${name}: ` : ""}${type}${about}`];
  left.lines -= 1;
  if (depth >= 4 || left.lines <= 0) return lines[0];
  const required = Array.isArray(known.required) ? known.required : [];
  const properties = typeof known.properties === "object" && known.properties ? known.properties : {};
  for (const [key, inner] of Object.entries(properties)) {
    if (left.lines <= 0) return [...lines, `${indent}  …`].join("\n");
    lines.push(outline(inner, required.includes(key) ? `${key} (required)` : key, `${indent}  `, depth + 1, left));
  }
  if (typeof known.items === "object" && known.items) lines.push(outline(known.items, "each", `${indent}  `, depth + 1, left));
  return lines.join("\n");
}

// A form from a schema, with its JSON beside it. Only what was filled in is sent.
class Form {
  constructor(schema) {
    const properties = typeof schema.properties === "object" && schema.properties ? schema.properties : {};
    const required = Array.isArray(schema.required) ? schema.required : [];
    this.fields = Object.entries(properties).map(([name, inner]) => new Field(name, resolved(inner), required.includes(name)));
    this.json = make("textarea", { rows: 8, spellcheck: false, "aria-label": "Arguments as JSON" });
    this.mistake = make("p", { class: "mistake" });
    this.asJson = !this.fields.length && schema.additionalProperties !== false && Object.keys(schema).length > 0
      && schema.type !== "object";
    this.tabs = [["Form", false], ["JSON", true]].map(([text, asJson]) => {
      const tab = make("button", { type: "button", role: "tab", textContent: text });
      tab.addEventListener("click", () => this.change(asJson));
      return tab;
    });
    this.body = make("div", {});
    this.node = make("div", {}, make("div", { class: "tabs", role: "tablist", "aria-label": "Arguments" }, ...this.tabs), this.body);
    this.json.value = "{}";
    this.draw();
  }

  draw() {
    this.tabs.forEach((tab, index) => tab.setAttribute("aria-selected", String(this.asJson === Boolean(index))));
    const none = make("p", { class: "muted", textContent: "This tool takes no arguments." });
    const fields = this.fields.length ? this.fields.map((field) => field.node) : [none];
    this.body.replaceChildren(...(this.asJson ? [this.json, this.mistake] : fields));
  }

  change(asJson) {
    if (asJson === this.asJson) return;
    if (asJson) {
      const { value } = this.filled(false);
      this.json.value = JSON.stringify(value, null, 2);
    } else {
      const value = this.read();
      if (value === null) return;
      for (const field of this.fields) field.set(value[field.name]);
    }
    this.mistake.textContent = "";
    this.asJson = asJson;
    this.draw();
  }

  read() {
    try {
      const value = JSON.parse(this.json.value || "{}");
      if (typeof value === "object" && value !== null && !Array.isArray(value)) {
        this.mistake.textContent = "";
        return value;
      }
      this.mistake.textContent = "This must be an object: { … }";
    } catch (error) {
      this.mistake.textContent = `This is not JSON: ${error.message}`;
    }
    return null;
  }

  filled(strict) {
    const value = {};
    let right = true;
    for (const field of this.fields) {
      const [given, inner, mistake] = field.get(strict);
      field.mistake.textContent = strict ? visible(mistake) : "";
      if (mistake && right && strict) field.input.focus();
      right = right && !mistake;
      if (given) value[field.name] = inner;
    }
    return { value, right };
  }

  arguments() {
    if (this.asJson) return this.read();
    const { value, right } = this.filled(true);
    return right ? value : null;
  }
}

class Field {
  constructor(name, schema, required) {
    this.name = name;
    this.required = required;
    this.kind = kindOf(schema);
    this.schema = schema;
    const id = `field-${name}`;
    this.input = this.make();
    this.input.id = id;
    this.mistake = make("p", { class: "mistake" });
    const type = this.kind === "enum" ? "choice" : this.kind === "json" ? String(schema.type ?? "any") : this.kind;
    const words = [type, required ? "required" : null].filter(Boolean).join(", ");
    const about = String(schema.description ?? schema.title ?? "");
    const shape = this.kind === "json" ? outline(schema) : "";
    const fold = shape.includes("\n") ? make("details", {}, make("summary", { textContent: "Its parts" }),
      make("pre", { textContent: shape })) : null;
    this.node = make("div", { class: "field" },
      make("label", { for: id, textContent: name }, make("span", { class: "kind", textContent: words })),
      make("div", {}, this.input, about ? make("p", { class: "hint", textContent: about }) : null, fold, this.mistake));
  }

  make() {
    const { schema } = this;
    const usual = schema.default === undefined || schema.default === null ? "" : JSON.stringify(schema.default);
    if (this.kind === "enum" || this.kind === "boolean") {
      const values = this.kind === "boolean" ? [true, false] : schema.enum;
      const none = make("option", { value: "", textContent: usual ? `left out (${usual})` : this.required ? "choose" : "left out" });
      return make("select", {}, none, ...values.map((value) =>
        make("option", { value: JSON.stringify(value), textContent: typeof value === "string" ? value : JSON.stringify(value) })));
    }
    const example = Array.isArray(schema.examples) && schema.examples.length ? JSON.stringify(schema.examples[0]) : "";
    const hint = (usual || example).slice(0, 200).replace(/^"(.*)"$/, "$1");
    if (this.kind === "json") return make("textarea", { rows: 2, placeholder: hint || { array: "[ … ]", object: "{ … }" }[schema.type] || "JSON", spellcheck: false });
    const numeric = this.kind !== "string";
    return make("input", { type: "text", inputMode: numeric ? "decimal" : "text", placeholder: hint, spellcheck: !numeric });
  }

  // [given, value, mistake]
  get(strict) {
    const text = this.input.value;
    if (text === "") return [false, null, strict && this.required && this.kind !== "string" ? "This is required." : this.emptyText(strict)];
    if (this.kind === "string") return [true, text, ""];
    try {
      const value = JSON.parse(text);
      if (this.kind === "integer" && !Number.isInteger(value)) return [false, null, "This must be a whole number."];
      if (this.kind === "number" && typeof value !== "number") return [false, null, "This must be a number."];
      return [true, value, ""];
    } catch {
      return [false, null, this.kind === "json" ? "This is not JSON." : "This must be a number."];
    }
  }

  emptyText(strict) {
    return strict && this.required ? "This is required. For an empty text, use the JSON." : "";
  }

  set(value) {
    if (value === undefined) this.input.value = "";
    else this.input.value = this.kind === "string" && typeof value === "string" ? value : JSON.stringify(value);
  }
}

// --- a call

async function call(tool, form, button, result) {
  const given = form.arguments();
  if (given === null) return;
  button.disabled = true;
  button.textContent = "Calling…";
  result.replaceChildren();
  const began = performance.now();
  try {
    const answer = await fetch(`.${tool.path.split("/").map(encodeURIComponent).join("/")}`, {
      method: "POST", body: JSON.stringify(given), headers: headers({ "content-type": "application/json", accept: WHOLE }),
    });
    const text = await answer.text();
    const took = `${((performance.now() - began) / 1000).toFixed(2)} s`;
    result.replaceChildren(...(answer.ok ? succeeded(text, took) : refused(answer.status, text, took)));
    result.scrollIntoView({ block: "nearest" });
  } catch {
    result.replaceChildren(make("p", { class: "notice", textContent: "The server does not answer. Is it still running?" }));
  } finally {
    button.disabled = false;
    button.textContent = "Call";
  }
}

function heading(good, text, took) {
  return make("p", {}, make("span", { class: `state ${good ? "good" : "bad"}`, textContent: text }),
    make("span", { class: "muted", textContent: `  ${took}` }));
}

function succeeded(text, took) {
  const nodes = [heading(true, "Done", took)];
  let whole;
  try {
    whole = JSON.parse(text);
  } catch {
    return [...nodes, make("pre", { textContent: text })];
  }
  if (whole.structured !== null && whole.structured !== undefined) nodes.push(...code("Data", JSON.stringify(whole.structured, null, 2)));
  for (const block of Array.isArray(whole.content) ? whole.content : []) nodes.push(...blockNodes(block, whole));
  if (nodes.length === 1) nodes.push(make("p", { class: "muted", textContent: "The tool returned nothing." }));
  return nodes;
}

function blockNodes(block, whole) {
  const type = String(block.mime_type ?? "");
  if (block.type === "text") {
    const same = whole.structured !== null && whole.structured !== undefined;
    return same ? [] : code("Text", String(block.text ?? ""));
  }
  if (block.type === "image" && block.data && /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(type)) {
    return [make("img", { src: `data:${type};base64,${block.data}`, alt: String(block.name ?? "An image that the tool returned") })];
  }
  if (block.type === "audio" && block.data && /^audio\/[\w.+-]+$/.test(type)) {
    return [make("audio", { controls: true, src: `data:${type};base64,${block.data}` })];
  }
  const size = block.data ? `, ${Math.floor((String(block.data).length * 3) / 4)} bytes` : "";
  return [make("p", { class: "mono", textContent: `${block.type}: ${block.name ?? block.uri ?? ""} ${type}${size}` })];
}

function refused(status, text, took) {
  let problem = null;
  try {
    problem = JSON.parse(text);
  } catch {
    problem = null;
  }
  const nodes = [heading(false, `Status ${status}`, took), make("p", { class: "notice", textContent: problem?.message ?? text.slice(0, 2000) })];
  if (problem?.hint) nodes.push(make("p", { textContent: problem.hint }));
  // Of a tool that failed, the details say the message again.
  if (problem?.details && problem.category !== "tool") nodes.push(...code("Details", JSON.stringify(problem.details, null, 2)));
  return nodes;
}

function code(title, text) {
  const copy = make("button", { class: "plain", type: "button", textContent: "Copy" });
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Copying is not allowed here"; });
  });
  return [make("h2", {}, `${title} `, copy), make("pre", { textContent: text })];
}

// --- the page

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  document.body.classList.remove("one");
  load();
});
at("search").addEventListener("input", list);
addEventListener("hashchange", () => { list(); show(); });
addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    at("search").focus();
  } else if (event.key === "Escape" && typing) {
    document.activeElement.blur();
  }
});
load();
