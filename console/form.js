// A form out of a JSON Schema, with its JSON beside it: both are edited, and stay in step. What was not touched
// is not sent: left out is something else than null, and than an empty text.
"use strict";
(() => {
  const DEEPEST = 24;
  const MOST = 500; // items of a list that have fields
  const OMITTED = Symbol("left out");
  let count = 0;

  function make(tag, options = {}, ...children) {
    const { text, on, data, ...attributes } = options;
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === true) element.setAttribute(name, "");
      else if (value !== undefined && value !== false && value !== null) element.setAttribute(name, value);
    }
    if (text !== undefined) element.textContent = text;
    for (const [name, handler] of Object.entries(on ?? {})) element.addEventListener(name, handler);
    Object.assign(element.dataset, data ?? {});
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  // What would turn words around or stay unseen is written as JSON's own escape.
  const UNSEEN = /[\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff]/g;
  const isPaired = (text, at) => /^[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(at, at + 2)) || /^[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(at - 1, at + 1));
  function shown(text) {
    return text.replace(UNSEEN, (found, at) => (found >= "\ud800" && found <= "\udfff" && isPaired(text, at) ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`));
  }
  const written = (value) => (value === OMITTED ? "" : shown(JSON.stringify(value, null, 2)));
  const brief = (value) => { const text = shown(typeof value === "string" ? value : JSON.stringify(value) ?? ""); return text.length > 60 ? `${text.slice(0, 59)}…` : text; };

  // --- schemas

  class Schemas {
    constructor(root) { this.root = isObject(root) ? root : {}; }
    // The schema that one stands for: references followed, parts of allOf together.
    of(schema, depth = 0) {
      if (!isObject(schema) || depth > 32) return {};
      if (typeof schema.$ref === "string") {
        const { $ref, ...further } = schema;
        return { ...this.of(this.at($ref), depth + 1), ...further };
      }
      if (Array.isArray(schema.allOf)) {
        const { allOf, ...further } = schema;
        return [...allOf, further].reduce((whole, part) => {
          const found = part === further ? part : this.of(part, depth + 1);
          return {
            ...whole, ...found,
            ...(whole.properties || found.properties ? { properties: { ...whole.properties, ...found.properties } } : {}),
            ...(whole.required || found.required ? { required: [...new Set([...(whole.required ?? []), ...(found.required ?? [])])] } : {}),
          };
        }, {});
      }
      return schema;
    }
    at(reference) {
      if (!reference.startsWith("#")) return {};
      let found = this.root;
      for (const step of reference.slice(1).split("/").slice(1)) {
        const name = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
        if (typeof found !== "object" || found === null || !Object.hasOwn(found, name)) return {};
        found = found[name];
      }
      return found;
    }
    // The ways in which a value may be, and if it may be null.
    ways(schema) {
      let ways = schema.anyOf ?? schema.oneOf;
      if (Array.isArray(ways)) {
        const { anyOf, oneOf, ...common } = schema;
        const { title, description, default: usual, ...shared } = common;
        ways = ways.map((way) => ({ ...shared, ...this.of(way) }));
      } else if (Array.isArray(schema.type)) ways = schema.type.map((type) => ({ ...schema, type }));
      else ways = [schema];
      const some = ways.filter((way) => way.type !== "null" && !("const" in way && way.const === null));
      return { ways: some, nullable: some.length < ways.length || (Array.isArray(schema.enum) && schema.enum.includes(null)) };
    }
    name(way) {
      if (way.title) return brief(way.title);
      const tag = Object.entries(isObject(way.properties) ? way.properties : {}).find(([, of]) => isObject(of) && "const" in of);
      if (tag) return `${brief(tag[0])}: ${brief(tag[1].const)}`;
      if ("const" in way) return brief(way.const);
      return { string: "text", integer: "whole number", number: "number", boolean: "yes or no", array: "list", object: "object" }[way.type] ?? (way.enum ? "choice" : "anything");
    }
    fits(way, value) {
      if ("const" in way) return JSON.stringify(way.const) === JSON.stringify(value);
      if (Array.isArray(way.enum)) return way.enum.some((one) => JSON.stringify(one) === JSON.stringify(value));
      switch (way.type) {
        case "string": return typeof value === "string";
        case "integer": return Number.isInteger(value);
        case "number": return typeof value === "number";
        case "boolean": return typeof value === "boolean";
        case "array": return Array.isArray(value);
        case "object": {
          if (!isObject(value)) return false;
          const known = isObject(way.properties) ? way.properties : {};
          if ((way.required ?? []).some((name) => !Object.hasOwn(value, name))) return false;
          return Object.entries(known).every(([name, of]) => { const tag = this.of(of); return !("const" in tag) || !Object.hasOwn(value, name) || value[name] === tag.const; });
        }
        default: return true;
      }
    }
  }

  // --- fields: each has `element`, `get`, `set` and `path`

  class SchemaForm {
    constructor(host, { schema, value, required = true, onchange = () => {} }) {
      this.schemas = new Schemas(schema);
      this.onchange = onchange;
      this.fields = new Map();
      const id = `form-${++count}`;
      this.json = make("textarea", { id: `${id}-json`, rows: 10, spellcheck: "false", autocomplete: "off", "aria-describedby": `${id}-said`, on: { input: () => this.fromJson() } });
      this.said = make("p", { id: `${id}-said`, class: "field-problem", role: "alert", hidden: true });
      this.place = make("div", { class: "form-fields" });
      this.root = this.field(schema, { path: "", label: "", required, depth: 0 });
      this.place.append(this.root.element);
      host.classList.toggle("simple", this.root.isSimple);
      host.replaceChildren(this.place, make("div", { class: "form-json" }, make("label", { for: `${id}-json`, text: "JSON" }), this.json, this.said));
      this.root.set(value === undefined ? this.start(schema) : value);
      this.write();
    }
    // What a value begins with that has to be there.
    start(given, depth = 0) {
      const schema = this.schemas.of(given);
      if (Object.hasOwn(schema, "default")) return schema.default;
      if ("const" in schema) return schema.const;
      if (schema.type === "array") return depth ? [] : OMITTED;
      if ((schema.type !== "object" && !isObject(schema.properties)) || depth > 4) return OMITTED;
      const value = {};
      for (const name of Array.isArray(schema.required) ? schema.required : []) {
        const one = isObject(schema.properties) && Object.hasOwn(schema.properties, name) ? this.start(schema.properties[name], depth + 1) : OMITTED;
        if (one !== OMITTED) value[name] = one;
      }
      return value;
    }
    get value() { const value = this.root.get(); return value === OMITTED ? undefined : value; }
    set value(value) { this.root.set(value === undefined ? OMITTED : value); this.write(); this.clear(); }
    get isBroken() { return !this.said.hidden; }
    write() { this.json.value = written(this.root.get()); this.jsonProblem(""); this.json.rows = Math.min(Math.max(this.json.value.split("\n").length + 1, 6), 28); }
    jsonProblem(text) {
      this.said.textContent = text;
      this.said.hidden = !text;
      this.json.setAttribute("aria-invalid", String(Boolean(text)));
    }
    fromJson() {
      let value = OMITTED;
      if (this.json.value.trim()) {
        try { value = JSON.parse(this.json.value); } catch (error) { this.jsonProblem(`This is not JSON yet. ${error.message}`); this.onchange(this); return; }
      }
      this.jsonProblem("");
      this.root.set(value);
      this.clear();
      this.onchange(this);
    }
    changed() { this.write(); this.onchange(this); }
    // Shows what our validation found: at the field, or at the nearest around it.
    problems(found) {
      this.clear();
      let first = null;
      for (const { path, problem } of found) {
        let at = path;
        while (at && !this.fields.has(at)) { const around = at.replace(/(\.[^.[\]]*|\[\d+\]|[^.[\]]+)$/, ""); at = around === at ? "" : around; }
        const field = this.fields.get(at) ?? this.root;
        field.problem(at === path ? problem : `${path}: ${problem}`);
        first ??= field;
      }
      first?.focus();
    }
    clear() { for (const field of this.fields.values()) field.problem(""); this.root.problem(""); }

    field(given, where) {
      const schema = this.schemas.of(given);
      const { ways, nullable } = this.schemas.ways(schema);
      const kind = ways.length > 1 ? this.union(ways, where) : this.one(ways[0] ?? {}, where);
      return this.around(kind, schema, where, nullable);
    }
    // What every field has: a label, its state (left out, null, given), help and its problem.
    around(kind, schema, where, nullable) {
      const id = `field-${++count}`;
      let state = "omitted";
      const isRoot = where.path === "" && !where.label;
      const problem = make("p", { class: "field-problem", id: `${id}-problem`, hidden: true });
      const note = make("span", { class: "field-state" });
      const buttons = make("span", { class: "field-buttons" });
      const body = make("div", { class: "field-body" });
      const name = where.label ? shown(where.label) : "";
      const button = (words, act, label) => make("button", { type: "button", class: "quiet small", text: words, "aria-label": `${words}: ${label ?? (name || "the value")}`, on: { click: act } });
      const usual = Object.hasOwn(schema, "default") ? `default ${brief(schema.default)}` : "";
      const show = () => {
        note.textContent = state === "omitted" ? [where.required ? "" : "left out", usual].filter(Boolean).join(", ") : state === "null" ? "null" : kind.get() === "" ? "empty text" : "";
        body.hidden = state === "null" || (state === "omitted" && kind.isLarge);
        const made = [];
        if (state === "omitted" && kind.isLarge) made.push(button("Add", () => { set(kind.empty()); this.changed(); kind.focus(); }));
        if (state !== "omitted" && !where.required) made.push(button("Leave out", () => { set(OMITTED); this.changed(); }));
        if (nullable && state !== "null") made.push(button("Null", () => { set(null); this.changed(); }));
        if (state === "null") made.push(button("Give a value", () => { set(kind.empty()); this.changed(); kind.focus(); }));
        const focused = buttons.contains(document.activeElement);
        buttons.replaceChildren(...made);
        if (head) head.hidden = isRoot && !note.textContent && !made.length;
        if (focused) buttons.querySelector("button")?.focus();
      };
      kind.onedit = () => { state = "given"; problem.hidden = true; show(); this.changed(); };
      const set = (value) => {
        state = value === OMITTED ? "omitted" : value === null && nullable ? "null" : "given";
        kind.set(state === "given" ? value : OMITTED);
        show();
      };
      const control = kind.control;
      if (control && isRoot) control.setAttribute("aria-label", schema.title ? brief(schema.title) : "Value");
      if (control) { control.id = id; control.setAttribute("aria-describedby", `${id}-help ${id}-problem`); }
      body.append(kind.element);
      const head = isRoot && kind.isLarge ? null : make("div", { class: "field-head" },
        name ? make(control ? "label" : "span", { for: control ? id : undefined, class: "field-name mono", text: name }) : null,
        where.required && name && !where.isItem ? make("span", { class: "field-must", text: "required" }) : null, note, buttons);
      const help = make("p", { class: "hint field-help", id: `${id}-help`, text: schema.description ? shown(String(schema.description)).slice(0, 600) : "", hidden: !schema.description || isRoot });
      const isGroup = kind.isLarge && !isRoot;
      const element = make("div", { class: `field${isGroup ? " group" : ""}`, role: isGroup ? "group" : undefined, "aria-label": isGroup ? name || "value" : undefined }, head, help, problem, body);
      const field = {
        element, set, isSimple: Boolean(control),
        get: () => (state === "omitted" ? OMITTED : state === "null" ? null : kind.get()),
        focus: () => kind.focus(),
        empty: () => kind.empty(),
        problem: (text) => {
          problem.textContent = shown(text);
          problem.hidden = !text;
          if (control) control.setAttribute("aria-invalid", String(Boolean(text)));
        },
        drop: () => { this.fields.delete(where.path); kind.drop?.(); },
      };
      this.fields.set(where.path, field);
      show();
      return field;
    }
    one(schema, where) {
      if ("const" in schema || Array.isArray(schema.enum)) return this.choice(schema);
      if (where.depth >= DEEPEST) return this.anything();
      switch (schema.type) {
        case "string": return this.text(schema, where);
        case "integer": case "number": return this.number(schema);
        case "boolean": return this.choice({ enum: [true, false] });
        case "array": return this.list(schema, where);
        case "object": return this.object(schema, where);
        default: return isObject(schema.properties) ? this.object(schema, where) : this.anything();
      }
    }
    simple(control, { get, set, empty, element = control }) {
      const kind = { element, control, get, set, empty, focus: () => control.focus(), onedit: () => {} };
      control.addEventListener(control.tagName === "SELECT" ? "change" : "input", () => kind.onedit());
      return kind;
    }
    choice(schema) {
      const values = "const" in schema ? [schema.const] : schema.enum.filter((value) => value !== null).slice(0, MOST);
      const none = make("option", { value: "", text: "–" });
      let other = OMITTED;
      const extra = make("option", { value: "other", hidden: true });
      const control = make("select", {}, none, ...values.map((value, at) => make("option", { value: String(at), text: typeof value === "string" ? shown(value) : brief(value) })), extra);
      const get = () => (control.value === "" ? OMITTED : control.value === "other" ? other : values[Number(control.value)]);
      const set = (value) => {
        const at = values.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
        if (value !== OMITTED && at < 0) { other = value; extra.hidden = false; extra.textContent = brief(value); control.value = "other"; } else control.value = at < 0 ? "" : String(at);
      };
      return this.simple(control, { get, set, empty: () => values[0] ?? null });
    }
    text(schema, where) {
      const isFile = schema.contentEncoding === "base64" || ["byte", "binary", "base64", "data-url"].includes(schema.format);
      const isLong = isFile || (schema.maxLength ?? 0) > 200 || /markdown|html|text\//.test(`${schema.format ?? ""}${schema.contentMediaType ?? ""}`) || schema.multiline;
      const types = { date: "date", email: "email", uri: "url", url: "url", time: "time", password: "password" };
      const hints = { "date-time": "2026-01-31T12:00:00Z", duration: "PT1H", uuid: "00000000-0000-…", uri: "https://…", email: "name@example.com" };
      const type = schema.writeOnly ? "password" : types[schema.format] ?? "text";
      const placeholder = hints[schema.format] ?? "";
      const control = isLong ? make("textarea", { rows: isFile ? 3 : 5, spellcheck: "false", placeholder: isFile ? "Base64, or choose a file" : placeholder })
        : make("input", { type, placeholder, autocomplete: "off", spellcheck: "false" });
      // A line of text cannot hold line breaks: a browser would take them out without a word.
      let kept = null;
      const kind = this.simple(control, {
        get: () => kept ?? control.value,
        set: (value) => {
          const text = value === OMITTED ? "" : typeof value === "string" ? value : brief(value);
          control.value = text;
          kept = value !== OMITTED && control.value !== value ? value : null;
        },
        empty: () => "",
      });
      control.addEventListener("input", () => { kept = null; }, { capture: true });
      if (isFile) {
        const asUrl = schema.format === "data-url";
        const chosen = make("input", { type: "file", "aria-label": `File for ${shown(where.label || "the value")}`, on: { change: () => {
          const [file] = chosen.files;
          if (!file) return;
          const reader = new FileReader();
          reader.onload = () => { control.value = asUrl ? reader.result : reader.result.slice(reader.result.indexOf(",") + 1); kind.onedit(); };
          reader.readAsDataURL(file);
        } } });
        kind.element = make("div", { class: "file-field" }, control, chosen);
      }
      return kind;
    }
    number(schema) {
      const control = make("input", { type: "text", inputmode: schema.type === "integer" ? "numeric" : "decimal", autocomplete: "off", class: "number-field" });
      // What is no number stays as it was typed, and our validation says so.
      const get = () => { const text = control.value.trim(); if (!text) return OMITTED; const number = Number(text); return Number.isFinite(number) && (!Number.isInteger(number) || Number.isSafeInteger(number)) ? number : text; };
      return this.simple(control, { get, set: (value) => { control.value = value === OMITTED ? "" : typeof value === "object" ? brief(value) : String(value); }, empty: () => 0 });
    }
    anything() {
      const control = make("textarea", { rows: 3, spellcheck: "false", placeholder: "JSON, or a text" });
      const get = () => { if (!control.value.trim()) return OMITTED; try { return JSON.parse(control.value); } catch { return control.value; } };
      return this.simple(control, { get, set: (value) => { control.value = written(value); }, empty: () => ({}) });
    }
    union(ways, where) {
      const inside = make("div");
      let kind = null, at = -1;
      const select = make("select", { "aria-label": `Kind of ${shown(where.label || "the value")}` }, ...ways.map((way, index) => make("option", { value: String(index), text: this.schemas.name(way) })));
      const made = { element: make("div", { class: "union" }, select, inside), isLarge: true, onedit: () => {} };
      const take = (index) => {
        if (index === at) return;
        kind?.drop?.();
        at = index;
        kind = this.one(ways[index], { ...where, depth: where.depth + 1 });
        kind.onedit = () => made.onedit();
        if (kind.control) kind.control.setAttribute("aria-label", shown(where.label || "value"));
        inside.replaceChildren(kind.element);
        select.value = String(index);
      };
      select.addEventListener("change", () => { take(Number(select.value)); kind.set(kind.empty()); made.onedit(); });
      made.get = () => (kind ? kind.get() : OMITTED);
      made.set = (value) => {
        if (value !== OMITTED && (at < 0 || !this.schemas.fits(ways[at], value))) take(Math.max(ways.findIndex((way) => this.schemas.fits(way, value)), 0));
        kind?.set(value);
      };
      made.empty = () => { take(Math.max(at, 0)); return kind.empty(); };
      made.focus = () => select.focus();
      made.drop = () => kind?.drop?.();
      return made;
    }
    object(schema, where) {
      const known = isObject(schema.properties) ? schema.properties : {};
      const required = new Set(Array.isArray(schema.required) ? schema.required : []);
      const rows = new Map();
      const place = make("div", { class: "fields-of" });
      const isOpen = schema.additionalProperties !== false || isObject(schema.patternProperties);
      const kind = { element: make("div", {}, place), isLarge: true, onedit: () => {} };
      const path = (name) => (where.path ? `${where.path}.${name}` : name);
      const add = (name, of, must) => {
        const field = this.field(of, { path: path(name), label: name, required: must, depth: where.depth + 1 });
        rows.set(name, field);
        place.append(field.element);
        return field;
      };
      const extra = isObject(schema.additionalProperties) ? schema.additionalProperties : {};
      const build = () => {
        if (rows.size) return;
        const names = Object.keys(known).sort((one, two) => Number(required.has(two)) - Number(required.has(one)));
        for (const name of names) add(name, known[name], required.has(name));
      };
      if (isOpen && (isObject(schema.additionalProperties) || !Object.keys(known).length)) {
        const key = make("input", { type: "text", placeholder: "Name", "aria-label": `Name of a further field of ${shown(where.label || "the object")}`, autocomplete: "off", spellcheck: "false" });
        const more = () => {
          if (!key.value || rows.has(key.value)) return;
          const field = add(key.value, extra, false);
          field.set(field.empty());
          key.value = "";
          kind.onedit();
          field.focus();
        };
        key.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); more(); } });
        kind.element.append(make("div", { class: "field-more" }, key, make("button", { type: "button", text: "Add a field", on: { click: more } })));
      }
      let others = {};
      kind.get = () => {
        if (!isObject(others)) return others;
        const value = { ...others };
        for (const [name, field] of rows) { const one = field.get(); if (one !== OMITTED) Object.defineProperty(value, name, { value: one, enumerable: true, configurable: true, writable: true }); }
        return value;
      };
      kind.set = (value) => {
        if (value === OMITTED) { for (const field of rows.values()) field.set(OMITTED); others = {}; return; }
        build();
        if (!isObject(value)) { others = value; return; }
        others = {};
        for (const [name, field] of [...rows]) {
          if (Object.hasOwn(value, name)) field.set(value[name]);
          else if (Object.hasOwn(known, name)) field.set(OMITTED);
          else { field.drop(); field.element.remove(); rows.delete(name); }
        }
        for (const name of Object.keys(value)) {
          if (!rows.has(name) && rows.size < MOST) add(name, extra, false).set(value[name]);
          else if (!rows.has(name)) others[name] = value[name];
        }
      };
      kind.empty = () => this.start({ ...schema, type: "object" }, 1);
      kind.focus = () => (place.querySelector("input, select, textarea, button") ?? kind.element.querySelector("input"))?.focus();
      kind.drop = () => { for (const field of rows.values()) field.drop(); };
      return kind;
    }
    list(schema, where) {
      const place = make("ol", { class: "items-of" });
      const kind = { element: null, isLarge: true, onedit: () => {} };
      let items = [], rest = [], other = null;
      const of = (at) => (Array.isArray(schema.prefixItems) && at < schema.prefixItems.length ? schema.prefixItems[at] : isObject(schema.items) ? schema.items : {});
      const fill = (values) => {
        for (const item of items) item.drop();
        rest = values.slice(MOST);
        items = values.slice(0, MOST).map((value, at) => {
          const field = this.field(of(at), { path: `${where.path}[${at}]`, label: `${at + 1}`, required: true, isItem: true, depth: where.depth + 1 });
          field.set(value);
          return field;
        });
        const name = shown(where.label || "the list");
        const act = (words, label, change) => make("button", { type: "button", class: "quiet small", text: words, "aria-label": label, on: { click: () => { const now = kind.get(); change(now); fill(now); kind.onedit(); } } });
        place.replaceChildren(...items.map((field, at) => make("li", {}, field.element, make("span", { class: "item-buttons" },
          at ? act("Up", `Move item ${at + 1} of ${name} up`, (now) => now.splice(at - 1, 2, now[at], now[at - 1])) : null,
          act("Remove", `Remove item ${at + 1} of ${name}`, (now) => now.splice(at, 1))))));
      };
      const more = make("button", { type: "button", text: "Add an item", "aria-label": `Add an item to ${shown(where.label || "the list")}`, on: { click: () => {
        const field = this.field(of(items.length), { path: `${where.path}[${items.length}]`, label: `${items.length + 1}`, required: true, depth: where.depth + 1 });
        fill([...(Array.isArray(kind.get()) ? kind.get() : []), field.empty()]);
        kind.onedit();
        items.at(-1)?.focus();
      } } });
      kind.element = make("div", {}, place, make("div", { class: "field-more" }, more));
      kind.get = () => (other !== null ? other : [...items.map((item) => { const value = item.get(); return value === OMITTED ? null : value; }), ...rest]);
      kind.set = (value) => { other = value === OMITTED || Array.isArray(value) ? null : value; fill(Array.isArray(value) ? value : []); };
      kind.empty = () => [];
      kind.focus = () => (place.querySelector("input, select, textarea") ?? more).focus();
      kind.drop = () => { for (const item of items) item.drop(); };
      return kind;
    }
  }

  // The form of an element whose texts are the schema and the value.
  function formIn(host, onchange) {
    const read = (name) => { const element = host.querySelector(`[data-${name}]`); return element && element.value.trim() ? JSON.parse(element.value) : undefined; };
    return new SchemaForm(host, { schema: read("schema") ?? {}, value: read("value"), onchange });
  }
  Object.assign(window.spindle, { SchemaForm, formIn, make, shown, isObject });
})();
