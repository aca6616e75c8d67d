// Back from a provider: asks for the same again, as a page of this site, so that the session's cookie comes along.
"use strict";
(() => {
  const query = new URLSearchParams(location.search);
  query.set("returned", "1");
  const back = sessionStorage.getItem("spindle-back");
  if (back) query.set("back", back);
  sessionStorage.removeItem("spindle-back");
  location.replace(`${location.pathname}?${query}`);
})();
