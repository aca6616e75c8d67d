// A link has its secret after the #, which browsers send nowhere: the page shows it, once, by a form.
"use strict";
(() => {
  const KEY = "spindle-next", LASTS = 600000;
  const form = document.getElementById("by-link"), next = form.elements.next;
  const code = location.hash.slice(1);
  if (!/^[\w-]{20,100}$/.test(code)) {
    // The link comes in another tab, and knows nothing of the page that was asked for in this one.
    if (next.value === "/console") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, `${Date.now()} ${next.value}`);
    return;
  }
  history.replaceState(null, "", location.pathname + location.search);
  const [at, asked] = (localStorage.getItem(KEY) ?? "").split(/ (.*)/);
  localStorage.removeItem(KEY);
  if (next.value === "/console" && asked && Date.now() - at < LASTS) next.value = asked;
  form.hidden = false;
  form.elements.code.value = code;
  form.submit();
})();
