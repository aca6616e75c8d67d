// A link has its secret after the #, which browsers send nowhere: the page shows it, once, by a form.
"use strict";
(() => {
  const code = location.hash.slice(1);
  if (!/^[\w-]{20,100}$/.test(code)) return;
  history.replaceState(null, "", location.pathname + location.search);
  const form = document.getElementById("by-link");
  form.hidden = false;
  form.elements.code.value = code;
  form.submit();
})();
