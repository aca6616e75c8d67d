// The result of a call: text, a tree of JSON, a table where it is a list of objects, pictures, sound, links. Whatever
// is in it stays text; of what is large, the beginning is shown.
"use strict";
(() => {
  const { make, shown, isObject } = window.spindle;
  const LONGEST = 50000, STEP = 200, ROWS = 200, COLUMNS = 24, MEDIA = 8e6;

  function copyIcon() {
    const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS(icon.namespaceURI, "path");
    for (const [name, given] of [["class", "icon"], ["viewBox", "0 0 16 16"], ["role", "img"], ["aria-label", "Copy"]]) icon.setAttribute(name, given);
    path.setAttribute("d", "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1");
    icon.append(path);
    return icon;
  }
  function text(value) {
    const pre = make("pre", { tabindex: "0", text: shown(value.slice(0, LONGEST)) });
    const copy = make("button", { type: "button", class: "quiet copy", on: { click: () => navigator.clipboard.writeText(value).then(() => window.spindle.toast("Copied"), () => window.spindle.toast("The browser did not let the text be copied.", "bad")) } }, copyIcon());
    const more = value.length > LONGEST ? make("p", { class: "muted small", text: `The first ${LONGEST.toLocaleString()} of ${value.length.toLocaleString()} characters. Copy takes all.` }) : null;
    return make("div", {}, make("div", { class: "code" }, pre, copy), more);
  }
  const brief = (value) => { const said = typeof value === "string" ? value : JSON.stringify(value) ?? ""; return shown(said.length > 120 ? `${said.slice(0, 119)}…` : said); };

  // A branch is made when it is opened, and 200 entries at a time.
  function branch(name, value, open) {
    const label = name === null ? null : make("span", { class: "tree-name mono", text: `${shown(String(name)).slice(0, 200)}: ` });
    if (typeof value !== "object" || value === null) return make("div", { class: "leaf mono" }, label, make("span", { class: `tree-${value === null ? "null" : typeof value}`, text: typeof value === "string" ? shown(JSON.stringify(value.slice(0, 2000))) : String(value) }));
    const entries = Array.isArray(value) ? value.map((one, at) => [at, one]) : Object.entries(value);
    const kind = Array.isArray(value) ? `list of ${entries.length}` : `${entries.length} field${entries.length === 1 ? "" : "s"}`;
    if (!entries.length) return make("div", { class: "leaf mono" }, label, make("span", { class: "muted", text: Array.isArray(value) ? "[]" : "{}" }));
    const inside = make("div", { class: "twig" });
    let at = 0;
    const more = () => {
      const rest = inside.querySelector(":scope > button");
      rest?.remove();
      inside.append(...entries.slice(at, at + STEP).map(([key, one]) => branch(key, one, false)));
      at += STEP;
      if (at < entries.length) inside.append(make("button", { type: "button", class: "small", text: `${entries.length - at} more`, on: { click: more } }));
    };
    const element = make("details", { class: "tree", open, on: { toggle: () => { if (element.open && !at) more(); } } }, make("summary", { class: "mono" }, label, make("span", { class: "muted", text: kind })), inside);
    if (open) more();
    return element;
  }

  const isTable = (value) => Array.isArray(value) && value.length > 0 && value.every(isObject) && value.some((row) => Object.keys(row).length);
  function table(rows) {
    const columns = [...new Set(rows.slice(0, ROWS).flatMap((row) => Object.keys(row)))].slice(0, COLUMNS);
    const cells = (row) => columns.map((column) => make("td", { class: typeof row[column] === "number" ? "number" : "", text: Object.hasOwn(row, column) ? brief(row[column]) : "" }));
    const element = make("table", { class: "wide" }, make("thead", {}, make("tr", {}, ...columns.map((column) => make("th", { scope: "col", class: rows.slice(0, ROWS).some((row) => typeof row[column] === "number") ? "number" : "", text: shown(column).slice(0, 80) })))),
      make("tbody", {}, ...rows.slice(0, ROWS).map((row) => make("tr", {}, ...cells(row)))));
    const more = rows.length > ROWS ? make("p", { class: "muted small", text: `The first ${ROWS} of ${rows.length.toLocaleString()} rows.` }) : null;
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows of the result" }, element, more);
  }
  // One way to look at a value at a time; the others are a press away.
  function faces(made) {
    if (made.length === 1) return made[0][1]();
    const place = make("div");
    const buttons = made.map(([name, build], at) => make("button", { type: "button", class: "small", text: name, "aria-pressed": String(!at), on: { click: () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === buttons[at]));
      place.replaceChildren(build());
    } } }));
    place.append(made[0][1]());
    return make("div", {}, make("div", { class: "faces", role: "group", "aria-label": "Ways to look at it" }, ...buttons), place);
  }
  function value(data) {
    const rows = isTable(data) ? data : isObject(data) && Object.keys(data).length === 1 && isTable(Object.values(data)[0]) ? Object.values(data)[0] : null;
    const whole = () => text(typeof data === "string" ? data : JSON.stringify(data, null, 2) ?? "");
    const made = [];
    if (rows) made.push(["Table", () => table(rows)]);
    if (typeof data === "object" && data !== null) made.push(["Tree", () => branch(null, data, true)]);
    return faces([...made, ["Text", whole]]);
  }
  const isWeb = (uri) => { try { return ["http:", "https:"].includes(new URL(uri).protocol); } catch { return false; } };
  function block(one) {
    const kind = String(one.mime_type ?? "");
    const source = typeof one.data === "string" && one.data.length < MEDIA && /^[\w.+-]+\/[\w.+-]+$/.test(kind) ? `data:${kind};base64,${one.data}` : null;
    const name = shown(String(one.name ?? one.uri ?? one.type)).slice(0, 200);
    if (source && one.type === "image" && kind.startsWith("image/")) return make("img", { src: source, alt: name, class: "seen" });
    if (source && one.type === "audio" && kind.startsWith("audio/")) return make("audio", { src: source, controls: true, "aria-label": name });
    if (typeof one.text === "string") { let data = null; try { data = /^\s*[[{]/.test(one.text) ? JSON.parse(one.text) : null; } catch { data = null; } return data === null ? text(one.text) : value(data); }
    const size = one.size ? `, ${Number(one.size).toLocaleString()} bytes` : "";
    if (one.uri && isWeb(one.uri)) return make("p", {}, make("a", { href: one.uri, target: "_blank", rel: "noopener noreferrer", text: name }));
    if (source) return make("p", {}, make("a", { href: `data:application/octet-stream;base64,${one.data}`, download: name.replace(/[^\w.-]/g, "_") || "file", text: `Download ${name}` }), make("span", { class: "muted", text: ` ${kind}${size}` }));
    return make("p", { class: "muted", text: `${name} ${kind}${size}` });
  }
  function show(place, result) {
    const blocks = Array.isArray(result?.content) ? result.content : [];
    const data = result?.structured;
    const has = data !== null && data !== undefined;
    // The text of a structured result says the same again.
    const others = has ? blocks.filter((one) => one.type !== "text") : blocks;
    const made = [...(has ? [value(data)] : []), ...others.slice(0, 100).map(block)];
    place.replaceChildren(...(made.length ? made : [make("p", { class: "muted", text: "It returned nothing." })]));
  }
  function problem(place, body) {
    const said = shown(String(body?.message ?? "It failed.")).slice(0, 4000);
    const hint = body?.hint ? make("p", { text: shown(String(body.hint)).slice(0, 1000) }) : null;
    const details = isObject(body?.details) && body.details.content ? make("div") : null;
    place.replaceChildren(make("div", { class: "notice bad", role: "note" }, make("strong", { text: said }), hint, make("p", { class: "small muted", text: shown(String(body?.category ?? "")) })), details ?? "");
    if (details && body.details.structured) show(details, { structured: body.details.structured });
  }
  Object.assign(window.spindle, { showResult: show, showProblem: problem });
  function showAll() {
    for (const given of document.querySelectorAll("[data-result] > [data-value]")) show(given.parentElement, JSON.parse(given.value));
  }
  document.addEventListener("htmx:after:swap", showAll);
  showAll();
})();
