// All that pages do besides what htmx does: live updates, changes over REST, times, keys, copying, the theme.
"use strict";
(() => {
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const csrf = one('meta[name="csrf"]').content;

  // --- times: "3 min ago", exact on hover

  const STEPS = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [86400 * 30, 86400, "days"]];
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
  function ago(seconds) {
    if (Math.abs(seconds) < 5) return "just now";
    for (const [below, size, unit] of STEPS) {
      if (Math.abs(seconds) < below) {
        const count = Math.floor(Math.abs(seconds) / size);
        const said = `${count} ${unit === "days" && count === 1 ? "day" : unit}`;
        return seconds < 0 ? `in ${said}` : `${said} ago`;
      }
    }
    return null;
  }
  function showTimes(within = document) {
    for (const element of all("time[datetime]", within)) {
      const at = new Date(element.dateTime);
      if (isNaN(at)) continue;
      const words = "ago" in element.dataset ? ago((Date.now() - at) / 1000) ?? date.format(at) : exact.format(at);
      if (element.textContent !== words) element.textContent = words;
      element.title = exact.format(at);
    }
  }
  setInterval(showTimes, 10000);
  document.addEventListener("htmx:after:swap", () => showTimes());

  // --- live updates: one stream for all pages of this browser, since it has few connections to a server

  const topics = new Set();
  let due = null;
  function changed(names) {
    names.forEach((name) => topics.add(name));
    if (due !== null) return;
    // Not all pages at once, and a hidden one only when it is looked at.
    due = setTimeout(tellPage, 100 + Math.random() * 400);
  }
  function tellPage() {
    due = null;
    if (document.hidden) return;
    const names = [...topics];
    topics.clear();
    for (const name of names) document.body.dispatchEvent(new CustomEvent(`live-${name}`));
  }
  document.addEventListener("visibilitychange", () => topics.size && changed([]));

  const channel = "BroadcastChannel" in window ? new BroadcastChannel("spindle-live") : null;
  const lost = one("#lost");
  // Marks of all that pages show: this page's when it was made, and those that the stream told of last.
  const since = one('meta[name="live"]').content;
  let latest = "";
  const marksIn = (text) => new Map(text.split("-").filter(Boolean).map((part) => part.split(".")));
  function hear(message) {
    if (message.since && latest) {
      // Another page has just been opened: what changed before it could listen is told again.
      const made = marksIn(message.since);
      const others = [...marksIn(latest)].filter(([topic, mark]) => made.get(topic) !== mark).map(([topic]) => topic);
      if (others.length) channel.postMessage({ changed: others });
    }
    if (message.changed) changed(message.changed);
    if ("lost" in message) lost.hidden = !message.lost;
    if (message.ended) signIn();
  }
  function signIn() {
    location.assign(`/console/enter?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  if (channel) channel.onmessage = (event) => hear(event.data);
  function tell(message) {
    hear(message);
    if (channel) channel.postMessage(message);
  }
  let was = false; // lost, and not there again
  function listen() {
    const stream = new EventSource(`/console/live?since=${since}`);
    stream.addEventListener("changed", (event) => { latest = event.lastEventId; tell({ changed: event.data.split(" ") }); });
    stream.addEventListener("ended", () => { stream.close(); tell({ ended: true }); });
    stream.onopen = () => {
      // What happened meanwhile is not known.
      if (was) tell({ lost: false, changed: ["tools", "sources", "calls", "runs", "pauses", "access", "logs"] });
      was = false;
    };
    stream.onerror = () => {
      was = true;
      tell({ lost: true });
      if (stream.readyState === EventSource.CLOSED) setTimeout(listenAgain, 2000);
    };
  }
  // The browser gives up a stream that was refused: by what stands before a server that is away, or since the
  // session is over.
  async function listenAgain() {
    const asked = new AbortController();
    const status = await fetch(`/console/live?since=${since}`, { signal: asked.signal }).then((answer) => answer.status, () => 0);
    asked.abort();
    if (status === 401) tell({ ended: true });
    else if (status === 200) listen();
    else setTimeout(listenAgain, 5000);
  }
  if (channel) channel.postMessage({ since });
  if (navigator.locks && channel) navigator.locks.request("spindle-live", () => new Promise(listen));
  else listen();

  // --- changes: every one is a call of the REST API

  function toast(text, kind = "") {
    const element = document.createElement("div");
    element.className = `toast ${kind}`;
    const words = document.createElement("span");
    words.textContent = text;
    element.append(words);
    if (kind === "bad") {
      // What went wrong stays until it was read.
      const close = document.createElement("button");
      close.className = "quiet";
      close.type = "button";
      close.textContent = "Close";
      close.onclick = () => element.remove();
      element.append(close);
    } else setTimeout(() => element.remove(), 5000);
    one("#toasts").append(element);
  }
  async function api(method, path, body) {
    const headers = { "X-Spindle-CSRF": csrf, Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let answer;
    try {
      answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    } catch {
      throw new Error("The server does not answer. Is it still running?");
    }
    if (answer.status === 401) { signIn(); return {}; }
    const text = await answer.text();
    let found = null;
    try { found = text ? JSON.parse(text) : null; } catch { found = null; }
    if (!answer.ok) {
      const said = [found?.message ?? `The server answered with ${answer.status}`, found?.hint].filter(Boolean);
      const error = new Error(said.map((part) => part[0].toUpperCase() + part.slice(1)).join(". ") + ".");
      error.body = found;
      throw error;
    }
    if (answer.headers.get("HX-Redirect")) location.assign(answer.headers.get("HX-Redirect"));
    return found;
  }
  // A field's value in JSON: data-json says how, and what is left empty is left out.
  function bodyOf(form) {
    const body = {};
    for (const field of form.elements) {
      if (!field.name || field.disabled || "inPath" in field.dataset || ((field.type === "checkbox" || field.type === "radio") && !field.checked)) continue;
      const kind = field.dataset.json;
      if (field.value === "" && kind !== "text") continue;
      if (kind === "boolean") body[field.name] = true;
      else if (kind === "number") body[field.name] = Number(field.value);
      else if (kind === "lines") body[field.name] = field.value.split("\n").map((line) => line.trim()).filter(Boolean);
      else if (kind === "words") body[field.name] = field.value.split(/[\s,]+/).filter(Boolean);
      else if (kind === "value") {
        try { body[field.name] = JSON.parse(field.value); } catch (error) { throw new Error(`${field.name}: this is not JSON. ${error.message}`); }
      } else body[field.name] = field.value;
    }
    return body;
  }
  async function change(element, body) {
    if (element.dataset.confirm && !(await confirmed(element.dataset.confirm, element.textContent.trim()))) return;
    const form = element.closest("form");
    const [method, pattern] = element.dataset.api.split(" ");
    // A field with data-in-path is a part of the path: `{name}` stands for it there.
    const path = pattern.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(form.elements[name].value));
    const said = form && one("[data-said]", form);
    const button = element.tagName === "FORM" ? one("button:not([type=button])", element) : element;
    if (button?.getAttribute("aria-busy") === "true") return;
    button?.setAttribute("aria-busy", "true");
    if (said) said.hidden = true;
    try {
      const answer = await api(method, path, typeof body === "function" ? body() : body);
      element.dispatchEvent(new CustomEvent("api-done", { bubbles: true, detail: answer }));
      if (element.dataset.done) toast(element.dataset.done + differences(answer));
      if (element.dataset.shows) showOnce(element, answer[element.dataset.shows]);
      const consent = "connect" in element.dataset && answer?.consents?.[0]?.url;
      if (consent && /^https?:/.test(consent)) {
        sessionStorage.setItem("spindle-back", location.pathname); // where back.js leads to again
        location.assign(consent);
        return;
      }
      if (element.dataset.go) location.assign(element.dataset.go.replace("{name}", encodeURIComponent(answer?.name ?? "")).replace("{run}", encodeURIComponent(answer?.run ?? "")));
      else if (element.dataset.live) changed(element.dataset.live.split(" "));
    } catch (error) {
      if (said) { said.textContent = error.message; said.hidden = false; said.focus?.(); }
      else toast(error.message, "bad");
    } finally {
      button?.removeAttribute("aria-busy");
    }
  }
  // What reading a source has changed, in words.
  function differences(answer) {
    const counts = ["added", "changed", "removed", "held"].filter((name) => answer?.[name]?.length);
    if (answer?.error?.message) return `, but failed: ${answer.error.message}`;
    return counts.length ? `: ${counts.map((name) => `${answer[name].length} ${name}`).join(", ")}` : "";
  }
  // A secret that was made is shown in the page alone, until it is put away.
  function showOnce(form, secret) {
    const shown = one("[data-shown]", form.parentElement);
    one("pre", shown).textContent = secret;
    shown.hidden = false;
    form.reset();
    form.hidden = true;
    shown.focus();
    one("[data-hide]", shown).onclick = () => {
      one("pre", shown).textContent = "";
      shown.hidden = true;
      form.hidden = false;
    };
  }
  function confirmed(question, verb) {
    const dialog = document.createElement("dialog");
    const text = document.createElement("p");
    text.textContent = question;
    const form = document.createElement("form");
    form.method = "dialog";
    form.className = "actions";
    for (const [value, words] of [["yes", verb || "Go on"], ["", "Cancel"]]) {
      const button = document.createElement("button");
      button.value = value;
      button.textContent = words;
      form.append(button);
    }
    dialog.append(text, form);
    document.body.append(dialog);
    dialog.showModal();
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    });
  }
  document.addEventListener("submit", (event) => {
    if (!event.target.dataset?.api) return;
    event.preventDefault();
    change(event.target, () => bodyOf(event.target));
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-api]");
    if (button) change(button, button.dataset.body ? JSON.parse(button.dataset.body) : undefined);
    const copy = event.target.closest?.("[data-copy]");
    if (copy) {
      navigator.clipboard.writeText(one("pre", copy.parentElement).textContent).then(
        () => toast("Copied"),
        () => toast("The browser did not let the text be copied.", "bad"),
      );
    }
    if (event.target.closest?.("[data-keys]")) one("#keys").showModal();
    if (event.target.closest?.("[data-theme-switch]")) switchTheme();
  });

  function switchTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("spindle-theme", root.dataset.theme);
  }

  // --- keys

  const search = one("#search");
  const isTyping = (element) => element?.matches?.("input, select, textarea, [contenteditable]");
  function move(options, current, step) {
    if (!options.length) return null;
    return options[Math.min(Math.max(options.indexOf(current) + step, 0), options.length - 1)];
  }
  search.addEventListener("keydown", (event) => {
    const options = all("#found [role=option]");
    const current = options.find((option) => option.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const next = move(options, current, event.key === "ArrowDown" ? 1 : -1);
      current?.setAttribute("aria-selected", "false");
      next?.setAttribute("aria-selected", "true");
      next?.scrollIntoView({ block: "nearest" });
      if (next) search.setAttribute("aria-activedescendant", next.id);
    } else if (event.key === "Enter") {
      event.preventDefault();
      (current ?? options[0])?.click();
    } else if (event.key === "Escape") {
      search.value = "";
      one("#found").replaceChildren();
      search.blur();
    }
  });
  new MutationObserver(() => {
    search.setAttribute("aria-expanded", String(one("#found [role=option]") !== null));
    search.removeAttribute("aria-activedescendant");
  }).observe(one("#found"), { childList: true });

  document.addEventListener("keydown", (event) => {
    if ((event.key === "/" && !isTyping(event.target)) || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      search.focus();
      search.select();
      return;
    }
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (event.key === "?") one("#keys").showModal();
    else if (event.key === "j" || event.key === "k") {
      const links = all("[data-row] a[href]:first-of-type, a.row").filter((link) => link.offsetParent);
      move(links, document.activeElement, event.key === "j" ? 1 : -1)?.focus();
    } else if (event.key === "Escape") one("[data-back]")?.click();
    else if (event.key === "t") one("[data-try]")?.click();
    else if (event.key === "r") one("[data-again]")?.click();
  });

  showTimes();
  window.spindle = { api, toast, changed, confirmed };
})();
