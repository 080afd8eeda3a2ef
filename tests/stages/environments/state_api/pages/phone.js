const defaults = { quiet: false };
let page = "Home";
const go = (to) => put("button", to, "go-" + to.toLowerCase(), () => { page = to; draw(); });
const show = () => {
  row(put("h2", page, "now"), go("Home"), go("Sound"));
  if (page === "Sound") row(put("button", state.quiet ? "Is quiet" : "Is loud", "quiet", () => {
    state.quiet = !state.quiet; save(); }));
};
