// Sets the colours asked for before anything is painted. Runs by itself in the head, not as a module, so that there is no
// flash of the wrong ones; the button that changes them is in app.js.
(() => {
  let wanted = null;
  try {
    wanted = localStorage.getItem("leasehold.theme");
  } catch {
    // Storage can be forbidden; the system's colours are a good answer then.
  }
  if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
})();
