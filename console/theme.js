// Puts the chosen theme in force before anything is drawn.
"use strict";
(() => {
  const chosen = localStorage.getItem("spindle-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
