// Tries a tool: sends what the form holds, follows the call, and shows what became of it.
"use strict";
(() => {
  const { api, changed, formIn, isObject, make, showResult, showProblem, shown } = window.spindle;
  const form = document.querySelector("form[data-tool]");
  const said = form.querySelector("[data-said]");
  const fields = formIn(form.querySelector("[data-form]"));
  const call = form.querySelector("[data-call]"), cancel = form.querySelector("[data-cancel]");
  const progress = form.querySelector("[data-progress]"), bar = progress.querySelector("progress"), step = progress.querySelector("span");
  const outcome = document.querySelector(".outcome"), place = outcome.querySelector("[data-outcome]"), took = outcome.querySelector("[data-took]");
  let running = null;

  function busy(is) {
    form.setAttribute("aria-busy", String(is));
    call.setAttribute("aria-busy", String(is));
    cancel.hidden = progress.hidden = !is;
    bar.removeAttribute("value");
    step.textContent = is ? "At work" : "";
  }
  function follow(one) {
    if (typeof one.total === "number" && one.total > 0) { bar.max = one.total; bar.value = one.progress; }
    step.textContent = shown(String(one.message ?? "At work")).slice(0, 160);
  }
  async function read(answer) {
    if (!(answer.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
      const text = await answer.text();
      let body = null;
      try { body = JSON.parse(text); } catch { body = { message: text || `The server answered with ${answer.status}` }; }
      return answer.status === 202 ? ["paused", body] : answer.ok ? ["result", body] : ["error", body];
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let parts = [], last = null;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return last ?? ["error", { message: "The server ended the answer too soon." }];
      // Pieces are kept apart until one ends an event: a large result comes in many.
      parts.push(value);
      if (!value.includes("\n")) continue;
      const events = parts.join("").split("\n\n");
      parts = [events.pop()];
      for (const event of events) {
        const name = /^event: (.*)$/m.exec(event)?.[1], data = /^data: (.*)$/m.exec(event)?.[1];
        if (!name) continue;
        const body = JSON.parse(data);
        if (name === "progress") follow(body); else last = [name, body];
      }
    }
  }
  async function paused(body) {
    const links = [make("a", { class: "button", href: `/console/runs/${encodeURIComponent(body.run)}`, text: "See its run" })];
    try {
      const { waiting } = await api("GET", "/pauses");
      for (const pause of waiting.filter((one) => one.run_id === body.run)) links.unshift(make("a", { class: "button primary", href: `/console/waiting/${encodeURIComponent(pause.token)}`, text: "Answer it" }));
    } catch { /* the run's page leads there too */ }
    place.replaceChildren(make("div", { class: "notice warn" }, make("strong", { text: `It waits: ${shown(String(body.message)).slice(0, 400)}` })), make("p", { class: "actions" }, ...links));
  }
  function wrong(body) {
    const found = Array.isArray(body.details) ? body.details.filter((one) => isObject(one) && typeof one.path === "string") : [];
    if (!found.length) return false;
    said.textContent = shown(String(body.message));
    said.hidden = false;
    fields.problems(found);
    return true;
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return;
    said.hidden = true;
    fields.clear();
    if (fields.isBroken) { said.textContent = "The JSON cannot be read yet: mend it, or edit the fields."; said.hidden = false; said.focus(); return; }
    running = new AbortController();
    busy(true);
    const began = performance.now();
    let end;
    try {
      end = await read(await fetch(`/tools/${form.dataset.tool}`, {
        method: "POST", signal: running.signal, body: JSON.stringify(fields.value ?? {}),
        headers: { "X-Spindle-CSRF": document.querySelector('meta[name="csrf"]').content, "Content-Type": "application/json", Accept: "text/event-stream" },
      }));
    } catch (error) {
      end = ["error", error.name === "AbortError" ? { message: "You cancelled the call.", hint: "What it had done before may stay done." } : { message: "The server does not answer.", hint: "Is it still running?" }];
    }
    running = null;
    busy(false);
    const [kind, body] = end;
    if (kind === "error" && wrong(body)) { outcome.hidden = true; return; }
    const spent = performance.now() - began;
    took.textContent = spent < 999.5 ? `${Math.round(spent)} ms` : `${(spent / 1000).toFixed(1)} s`;
    outcome.hidden = false;
    if (kind === "result") showResult(place, body);
    else if (kind === "paused") await paused(body);
    else showProblem(place, body);
    document.querySelector("#outcome-title").focus();
    changed(["calls", "pauses", "runs"]);
  });
  cancel.addEventListener("click", () => running?.abort());

  // --- a node of a flow: of a new one, or added to a file

  const dialog = document.querySelector("#save-flow");
  if (!dialog) return;
  const save = dialog.querySelector("[data-save]"), problem = dialog.querySelector("[data-said]"), saved = dialog.querySelector("[data-saved]");
  const { flow, name, after } = save.elements;
  // What looks like a template in a flow is a text here.
  const plain = (value) => (typeof value === "string" ? value.replaceAll("${", () => "$${") : Array.isArray(value) ? value.map(plain) : isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)])) : value);
  const params = () => plain(fields.value ?? {});
  const extend = (given) => api("POST", "/admin/v1/flows/extend", { file: flow.value, tool: form.dataset.name, params: params(), ...given });
  const refused = (error) => { problem.textContent = [error.message, error.body?.problems?.[0]?.message].filter(Boolean).join(" "); problem.hidden = false; problem.focus(); };
  async function choose() {
    const isOld = Boolean(flow?.value);
    name.disabled = name.closest("label").hidden = isOld;
    after.disabled = after.closest("label").hidden = !isOld;
    problem.hidden = saved.hidden = true;
    save.querySelector("[data-where]").textContent = isOld ? `It is added to flows/${flow.value}, with these arguments.` : "It is written to flows/NAME.json, with these arguments.";
    after.replaceChildren();
    if (!isOld) return;
    try {
      const found = await extend({});
      if (found.name !== flow.value) return; // another was chosen meanwhile
      after.replaceChildren(...found.nodes.map((id) => make("option", { text: id })));
      after.value = found.after;
    } catch (error) { refused(error); }
  }
  form.querySelector("[data-save-open]").addEventListener("click", () => { choose(); dialog.showModal(); });
  flow?.addEventListener("change", choose);
  dialog.querySelector("[data-save-close]").addEventListener("click", () => dialog.close());
  save.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (save.getAttribute("aria-busy") === "true") return;
    save.setAttribute("aria-busy", "true");
    problem.hidden = saved.hidden = true;
    try {
      let file = flow?.value, body;
      if (file) {
        const made = await extend({ after: after.value });
        body = { text: made.text, version: made.version };
      } else {
        file = `${name.value.trim()}.json`;
        const id = form.dataset.name.split(".").at(-1).replace(/[^\w-]/g, "_");
        body = { text: JSON.stringify({ name: name.value.trim(), nodes: [{ id, tool: form.dataset.name, params: params() }] }, null, 2) + "\n" };
      }
      await api("PUT", `/admin/v1/flows/${file.split("/").map(encodeURIComponent).join("/")}`, body);
      const link = saved.querySelector("a");
      link.href = `/console/flows/${file.split("/").map(encodeURIComponent).join("/")}`;
      link.textContent = `Open flows/${file}`;
      saved.hidden = false;
      link.focus();
    } catch (error) { refused(error); } finally { save.removeAttribute("aria-busy"); }
  });
})();
