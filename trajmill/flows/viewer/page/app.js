// Finds the view of the address, shows it, and gives it the keys that are pressed.

import { h, replace } from "./dom.js";
import { compareView } from "./compare.js";
import { failuresView } from "./failures.js";
import { go } from "./navigation.js";
import { liveView } from "./live.js";
import { policiesView } from "./policies.js";
import { runsView } from "./runs.js";
import { successView } from "./success.js";
import { trajectoriesView } from "./trajectories.js";
import { trajectoryView } from "./trajectory.js";

const PLACES = [
  { path: /^\/$/, view: runsView, name: "Runs", link: "/" },
  { path: /^\/trajectories$/, view: trajectoriesView, name: "Trajectories", link: "/trajectories" },
  { path: /^\/success$/, view: successView, name: "Success", link: "/success" },
  { path: /^\/failures$/, view: failuresView, name: "Failures", link: "/failures" },
  { path: /^\/policies$/, view: policiesView, name: "Policies", link: "/policies" },
  { path: /^\/live$/, view: liveView, name: "Live", link: "/live" },
  { path: /^\/trajectories\/([^/]+)\/([^/]+)$/, view: trajectoryView },
  { path: /^\/compare$/, view: compareView },
];
const KEYS = { g: ["runs", () => go("/")], t: ["trajectories", () => go("/trajectories")], s: ["success", () => go("/success")],
  f: ["failures", () => go("/failures")], v: ["policies", () => go("/policies")], l: ["live attempts", () => go("/live")] };
const NOWHERE = { view: nowhereView };

let shown = { keys: {} };
let asked = 0;

async function show() {
  const mine = ++asked;
  const place = PLACES.find(({ path }) => path.test(location.pathname)) ?? NOWHERE;
  const names = place.path?.exec(location.pathname)?.slice(1).map(decodeURIComponent) ?? [];
  shown = { keys: {} };
  drawBar(place);
  const main = document.getElementById("place");
  main.setAttribute("aria-busy", "true");
  let view;
  try {
    view = await place.view(new URLSearchParams(location.search), ...names);
  } catch (error) {
    view = { node: h("section", { class: "page" }, h("p", { class: "error", role: "alert" }, error.message)), title: "error" };
  }
  if (mine !== asked) return;
  shown = { keys: {}, ...view };
  document.title = view.title ? `${view.title} · trajmill` : "trajmill";
  replace(main, view.node);
  main.removeAttribute("aria-busy");
  view.ready?.();
}

function nowhereView() {
  return { node: h("section", { class: "page" }, h("h1", {}, "There is no such page"), h("p", {}, h("a", { class: "link", href: "/" }, "All runs"))), title: "Not found" };
}

function drawBar(place) {
  replace(document.getElementById("bar"),
    h("a", { class: "brand", href: "/" }, h("img", { src: "/static/icon.svg", width: 20, height: 20, alt: "" }), "trajmill"),
    h("nav", {}, PLACES.filter(({ name }) => name).map(({ name, link, view }) =>
      h("a", { href: link, "aria-current": view === place.view || (name === "Trajectories" && place.path && !place.name) ? "page" : null }, name))),
    h("button", { class: "quiet", onclick: help, title: "Keys (?)" }, "?"));
}

function help() {
  const dialog = document.getElementById("help");
  const rows = Object.entries({ ...shown.keys, ...KEYS, "?": ["this list"] });
  replace(dialog, h("h2", {}, "Keys"), h("dl", { class: "keys" }, rows.map(([key, [what]]) =>
    h("div", {}, h("dt", {}, h("kbd", {}, key.replace("Arrow", "").replace("Left", "←").replace("Right", "→").replace("Up", "↑").replace("Down", "↓"))), h("dd", {}, what)))));
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (event.target.id === "help") event.target.close();
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.target) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
  const writing = event.target.closest?.("input, textarea, select");
  if (writing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?") return help();
  const [, act] = shown.keys[event.key] ?? KEYS[event.key] ?? [];
  if (!act) return;
  event.preventDefault();
  act();
});

addEventListener("popstate", show);
show();
