// Goes to an address of the viewer; `step` replaces the present one without drawing the view again.

export function go(address, { step = false } = {}) {
  history[step ? "replaceState" : "pushState"](null, "", address);
  if (!step) dispatchEvent(new PopStateEvent("popstate"));
}

// The list that the reader came from: its address, and the addresses of its rows.
const LIST = "list";

export function rememberList(address, rows) {
  sessionStorage.setItem(LIST, JSON.stringify({ address, rows }));
}

export function rememberedList() {
  try {
    return JSON.parse(sessionStorage.getItem(LIST)) ?? { address: "/trajectories", rows: [] };
  } catch {
    return { address: "/trajectories", rows: [] };
  }
}
