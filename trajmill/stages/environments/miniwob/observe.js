// Runs before a page's own scripts, called with the scripts `settled` and `elements`. It gives the page
// window.__observe(milliseconds), which lets that time pass and returns, as one text, what the page then shows.
(settled, elements) => {
  const observe = async (milliseconds) => {
    await window.__advanceClock(milliseconds);
    return JSON.stringify([settled(), Boolean(window.WOB_DONE_GLOBAL), elements()]);
  };
  Object.defineProperty(window, "__observe", { value: observe });
}
