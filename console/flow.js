// Flows: runs one with the inputs of its form, and edits a file with its problems and its picture beside it.
"use strict";
(() => {
  const { api, toast, confirmed, formIn, isObject } = window.spindle;
  const one = (selector, within = document) => within.querySelector(selector);
  const say = (element, text) => { element.textContent = text; element.hidden = !text; if (text) element.focus(); };

  // --- running

  const run = one("form[data-run]");
  if (run) {
    const said = one("[data-said]", run);
    const fields = formIn(one("[data-form]", run));
    run.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (run.getAttribute("aria-busy") === "true") return;
      run.setAttribute("aria-busy", "true");
      said.hidden = true;
      fields.clear();
      try {
        if (fields.isBroken) throw new Error("The JSON cannot be read yet: mend it, or edit the fields.");
        const begun = await api("POST", `/flows/${run.dataset.run}/runs`, fields.value ?? {});
        location.assign(`/console/runs/${encodeURIComponent(begun.run)}`);
      } catch (error) {
        const details = Array.isArray(error.body?.details) ? error.body.details.filter((item) => isObject(item) && typeof item.path === "string") : [];
        say(said, error.message);
        if (details.length) fields.problems(details);
      } finally {
        run.removeAttribute("aria-busy");
      }
    });
  }

  // --- editing

  const editor = one("form[data-editor]");
  if (!editor) return;
  const area = editor.elements.text;
  const gutter = one(".gutter", editor);
  const list = one("[data-problems]", editor);
  const state = one("[data-state]", editor);
  const picture = one("[data-picture]", editor);
  const stale = one("[data-stale]", editor);
  const said = one("[data-said]", editor);
  const conflict = one("[data-conflict]", editor);
  const isNew = editor.dataset.file === "";
  const LINE = 20; // pixels, as in the style
  let version = editor.dataset.version;
  let before = area.value; // what is saved
  let problems = [];
  let errors = 0;
  let theirs = null; // the file, if somebody else has changed it
  let checked = null; // the text that the problems are of
  const isDirty = () => area.value !== before;
  const fileName = () => {
    if (!isNew) return editor.dataset.file;
    const given = editor.elements.file.value.trim();
    return /\.(ya?ml|json)$/i.test(given) || !given ? given : `${given}.yaml`;
  };
  const format = () => (/\.json$/i.test(fileName()) ? "json" : isNew ? "yaml" : editor.dataset.format);
  const address = () => `/admin/v1/flows/${fileName().split("/").map(encodeURIComponent).join("/")}`;
  const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  function number() {
    const lines = area.value.split("\n").length;
    const marked = new Map();
    for (const item of problems) if (item.line && marked.get(item.line) !== "error") marked.set(item.line, item.severity);
    const parts = [];
    let plain = "";
    for (let line = 1; line <= lines; line++) {
      if (!marked.has(line)) { plain += `${line}\n`; continue; }
      const mark = document.createElement("span");
      mark.className = marked.get(line);
      mark.textContent = `${line}\n`;
      parts.push(plain, mark);
      plain = "";
    }
    gutter.replaceChildren(...parts, plain);
    gutter.scrollTop = area.scrollTop;
  }
  function goTo(line) {
    const lines = area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    area.focus();
    area.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
    area.scrollTop = Math.max((line - 4) * LINE, 0);
  }
  function element(tag, name, text, ...children) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text) made.textContent = text;
    made.append(...children);
    return made;
  }
  function show() {
    errors = problems.filter((item) => item.severity === "error").length;
    const warnings = problems.length - errors;
    list.replaceChildren(...problems.slice(0, 100).map((item) => {
      const colour = item.severity === "error" ? "bad" : "warn";
      const dot = element("span", "dot");
      dot.setAttribute("aria-hidden", "true");
      const status = element("span", `status ${colour}`, "", dot, item.severity);
      const where = element("button", "quiet small mono", item.line ? `line ${item.line}` : "whole file");
      where.type = "button";
      where.addEventListener("click", () => goTo(item.line ?? 1));
      const words = element("span", "", item.message);
      if (item.hint) words.append(" ", element("span", "muted", item.hint));
      return element("li", "", "", status, where, words);
    }));
    const parts = [errors && many(errors, "error"), warnings && many(warnings, "warning")].filter(Boolean);
    state.textContent = parts.join(", ") || "No problems";
    state.className = errors ? "bad-text" : warnings ? "warn-text" : "good-text";
    number();
  }

  // The server makes the picture, and the browser reads it as XML: no text becomes markup here.
  function draw(text) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open("POST", "/admin/v1/flows/draw");
      request.setRequestHeader("X-Spindle-CSRF", one('meta[name="csrf"]').content);
      request.setRequestHeader("Content-Type", "application/json");
      request.responseType = "document";
      request.onload = () => resolve(request.status === 200 ? request.responseXML?.documentElement ?? null : null);
      request.onerror = () => resolve(null);
      request.send(JSON.stringify({ text, format: format() }));
    });
  }
  let due = null, isChecking = false;
  function later() {
    clearTimeout(due);
    due = setTimeout(check, 300);
  }
  async function check() {
    // One at a time: what is typed meanwhile is checked afterwards.
    if (isChecking) return;
    isChecking = true;
    const text = area.value, file = fileName();
    try {
      const found = await api("POST", "/admin/v1/flows/check", { text, format: format(), file: file ? `flows/${file}` : "" });
      problems = found?.problems ?? [];
      checked = text;
      const drawn = found?.is_readable && text === area.value ? await draw(text) : null;
      if (drawn) picture.replaceChildren(document.importNode(drawn, true));
      stale.hidden = Boolean(drawn) || !picture.firstElementChild || text !== area.value;
      picture.classList.toggle("stale", !stale.hidden);
      show();
    } catch (error) {
      state.textContent = error.message;
      state.className = "bad-text";
    } finally {
      isChecking = false;
      if (area.value !== text) later();
    }
  }

  function offer(now, words) {
    theirs = now;
    one("[data-conflict-words]", conflict).textContent = words;
    one("pre", conflict).textContent = now?.text ?? "";
    one("details", conflict).hidden = !now?.text;
    one("[data-theirs]", conflict).hidden = !now?.text;
    conflict.hidden = false;
  }
  function take(found) {
    before = area.value = found.text ?? "";
    version = found.version;
    conflict.hidden = true;
    number();
    check();
  }
  async function save(anyway = false) {
    if (editor.getAttribute("aria-busy") === "true") return;
    say(said, "");
    if (isNew && !editor.elements.file.reportValidity()) return;
    if (!anyway && errors && checked === area.value) {
      if (!(await confirmed(`${fileName()} has ${many(errors, "error")} and does not run like this. Save it anyway?`, "Save with errors"))) return;
      anyway = true;
    }
    editor.setAttribute("aria-busy", "true");
    const text = area.value;
    try {
      const saved = await api("PUT", address(), { text, anyway, ...(version ? { version } : {}) });
      version = saved.version;
      before = text;
      conflict.hidden = true;
      toast(`Saved ${saved.file}`);
      if (isNew) { location.assign(`/console/flows/${fileName()}`); return; }
      problems = saved.problems;
      if (text === area.value) { checked = text; show(); }
    } catch (error) {
      if (error.body?.now) { offer(error.body.now, error.message); conflict.focus(); }
      else if (Array.isArray(error.body?.problems)) {
        problems = error.body.problems;
        checked = text;
        show();
        editor.removeAttribute("aria-busy");
        await save();
      } else say(said, error.message);
    } finally {
      editor.removeAttribute("aria-busy");
    }
  }
  // The file may be changed elsewhere while it is open here: what is typed stays, and what is not touched follows.
  async function look() {
    if (isNew || !conflict.hidden || editor.getAttribute("aria-busy") === "true") return;
    let now;
    try { now = await api("GET", address()); } catch { return; }
    if (now.version === version || now.text === null || editor.getAttribute("aria-busy") === "true") return;
    if (!isDirty()) take(now);
    else offer(now, "Somebody else has changed this file while you edit it. Nothing of yours is lost.");
  }
  document.body.addEventListener("live-tools", look);
  window.addEventListener("focus", look);

  one("[data-theirs]", conflict).addEventListener("click", () => take(theirs));
  one("[data-mine]", conflict).addEventListener("click", () => { version = theirs?.version ?? ""; conflict.hidden = true; save(); });
  editor.addEventListener("submit", (event) => { event.preventDefault(); save(); });
  area.addEventListener("input", () => { number(); later(); });
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  editor.addEventListener("keydown", (event) => {
    if (event.key === "s" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); save(); }
    if (event.key !== "Enter" || event.target !== area || event.ctrlKey || event.metaKey) return;
    const line = area.value.slice(area.value.lastIndexOf("\n", area.selectionStart - 1) + 1, area.selectionStart);
    const indent = /^ */.exec(line)[0];
    if (indent) { event.preventDefault(); document.execCommand("insertText", false, `\n${indent}`); }
  });
  window.addEventListener("beforeunload", (event) => { if (isDirty() && !isNew) event.preventDefault(); });

  // --- asking for a flow in words

  const ask = one("form[data-ask]");
  async function draft(anew) {
    if (ask.getAttribute("aria-busy") === "true") return;
    const wrong = one("[data-said]", ask), asked = one("[data-asked]", ask), saved = one("[data-saved]", ask);
    if (isDirty() && !(await confirmed("The draft takes the place of what you wrote.", "Draft it"))) return;
    ask.setAttribute("aria-busy", "true");
    wrong.hidden = saved.hidden = true;
    asked.textContent = "Looking for a flow, or asking the model for one …";
    try {
      const found = await api("POST", "/admin/v1/flows/draft", { words: ask.elements.words.value, ...(anew ? { new: true } : {}) });
      const inputs = Object.entries(found.inputs ?? {}).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join(", ");
      if (found.from_saved) {
        const doubts = found.doubts?.length ? ` It is not known what becomes of: ${found.doubts.join(", ")}.` : "";
        one("p", saved).textContent = `The saved flow ${found.flow.name} ${doubts ? "does a part of this" : "does this"}${inputs ? `, with ${inputs}` : ""}.${doubts}`;
        one("a", saved).href = `/console/flows/${found.from_saved.replace(/^flows\//, "").split("/").map(encodeURIComponent).join("/")}`;
        saved.hidden = false;
        asked.textContent = "";
      } else {
        area.value = before = found.text;
        if (!editor.elements.file.value && /^[A-Za-z0-9][\w-]*$/.test(found.flow.name ?? "")) editor.elements.file.value = `${found.flow.name}.yaml`;
        asked.textContent = `The model wrote this flow${inputs ? `, to be run with ${inputs}` : ""}. Nothing is saved yet.`;
        number();
        check();
      }
    } catch (error) {
      asked.textContent = "";
      say(wrong, error.message);
    } finally {
      ask.removeAttribute("aria-busy");
    }
  }
  if (ask) {
    ask.addEventListener("submit", (event) => { event.preventDefault(); draft(false); });
    one("[data-anew]", ask).addEventListener("click", () => draft(true));
  }

  number();
  check();
})();
