// Runs before a page's own scripts, called with what settles a page and what reads its elements: gives it
// window.__look(milliseconds), which lets time pass and returns as one text what there is to see then.
(settled, elements) => {
  const look = async (milliseconds) => {
    await window.__letPass(milliseconds);
    return JSON.stringify([settled(), Boolean(window.WOB_DONE_GLOBAL), elements()]);
  };
  Object.defineProperty(window, "__look", { value: look });
}
