// Answers what waits for a person: approve, perhaps with other arguments, refuse with a reason, or fill in a form.
"use strict";
(() => {
  const { api, changed, formIn, isObject } = window.spindle;
  const form = document.querySelector("form[data-pause]");
  if (!form) return;
  const said = form.querySelector("[data-said]");
  const host = form.querySelector("[data-form]");
  const edit = form.querySelector("details[data-edit]");
  const approve = form.querySelector("button[value=approve]");
  const before = host?.querySelector("[data-value]")?.value;
  const isChanged = () => Boolean(fields && edit && JSON.stringify(fields.value) !== JSON.stringify(JSON.parse(before)));
  function label() {
    said.hidden = true; // what was wrong may be right now
    if (approve && edit) approve.textContent = isChanged() ? "Approve with changes" : "Approve";
  }
  const fields = host ? formIn(host, label) : null;

  const WORDS = { approve: "Approved", refuse: "Refused", done: "Noted as done", answer: "Answered" };
  function bodyFor(verb) {
    if (verb === "refuse") return { refused: form.elements.reason.value };
    if (fields?.isBroken) throw new Error("The JSON cannot be read yet: mend it, or edit the fields.");
    if (verb === "done") return { answer: { done: true } };
    if (verb === "approve") return { answer: { approved: true, ...(isChanged() ? { arguments: fields.value } : {}) } };
    return { answer: fields.value ?? null };
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.submitter ?? form.querySelector("button.primary");
    if (form.getAttribute("aria-busy") === "true") return;
    form.setAttribute("aria-busy", "true");
    said.hidden = true;
    fields?.clear();
    try {
      await api("POST", `/pauses/${form.dataset.pause}`, bodyFor(button.value));
      window.spindle.toast(WORDS[button.value] ?? "Answered");
    } catch (error) {
      said.textContent = error.message;
      said.hidden = false;
      if (Array.isArray(error.body?.details) && fields) {
        if (edit) edit.open = true;
        fields.problems(error.body.details.filter((one) => isObject(one) && typeof one.path === "string"));
      } else said.focus();
    } finally {
      form.removeAttribute("aria-busy");
      changed(["pauses", "runs"]);
    }
  });
})();
