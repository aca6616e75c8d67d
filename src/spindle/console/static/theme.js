"use strict";(()=>{const e=localStorage.getItem("spindle-theme");(e==="light"||e==="dark")&&(document.documentElement.dataset.theme=e)})();
