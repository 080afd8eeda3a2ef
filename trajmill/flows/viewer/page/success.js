// Success by app and by task over the rounds, as a table whose cells lead to the trajectories.

import { ask, queryString } from "./api.js";
import { h } from "./dom.js";
import { go } from "./navigation.js";
import { percent } from "./words.js";

const PURPOSES = ["evaluate", "train", "guided"];
const GROUPS = { app: "by app", task: "by task", split: "by split" };

export async function successView(search) {
  const runs = await ask("runs");
  const filters = { run: search.get("run") ?? runs[0]?.run_id, purpose: search.get("purpose") ?? "evaluate", split: search.get("split") };
  const tables = await Promise.all(Object.keys(GROUPS).map((by) => ask("success", { ...filters, by })));
  const splits = [...new Set(tables[2].map((cell) => cell.name))];
  const choose = (change) => `/success${queryString({ ...filters, ...change })}`;
  const node = h("section", { class: "page" },
    h("div", { class: "choices" },
      h("select", { "aria-label": "Run", onchange: (event) => go(choose({ run: event.target.value })) },
        runs.map((run) => h("option", { selected: run.run_id === filters.run }, run.run_id))),
      PURPOSES.map((purpose) => h("a", { class: "chip", href: choose({ purpose }), "aria-current": purpose === filters.purpose ? "true" : null }, purpose)),
      h("span", { class: "gap" }),
      filters.split ? h("a", { class: "chip", href: choose({ split: null }) }, filters.split, h("span", {}, "×"))
        : splits.map((split) => h("a", { class: "chip", href: choose({ split }) }, split))),
    Object.keys(GROUPS).map((by, place) => by === "split" && filters.split ? null : section(by, tables[place], filters)));
  return { node, title: "Success" };
}

function section(by, cells, filters) {
  const rounds = [...new Set(cells.map((cell) => cell.round))].sort((a, b) => a - b);
  const names = [...new Set(cells.map((cell) => cell.name))];
  if (!names.length) return by === "app" ? h("p", { class: "soft" }, "The environment has checked no attempt yet.") : null;
  return [h("h2", {}, `Success ${GROUPS[by]}`), h("div", { class: "scroll" }, h("table", { class: "heat" },
    h("thead", {}, h("tr", {}, h("th", { class: "left" }, by), rounds.map((round) => h("th", {}, round)))),
    h("tbody", {}, names.map((name) => h("tr", {}, h("th", { class: "left" }, name),
      rounds.map((round) => heatCell(by, cells.find((cell) => cell.name === name && cell.round === round), filters)))))))];
}

function heatCell(by, cell, filters) {
  if (!cell) return h("td", { class: "none" }, "");
  const share = cell.passed / cell.attempts;
  const link = `/trajectories${queryString({ ...filters, [by]: cell.name, round: cell.round })}`;
  return h("td", { "--share": share }, h("a", { href: link, title: `${cell.passed} of ${cell.attempts} passed` }, percent(share)));
}
