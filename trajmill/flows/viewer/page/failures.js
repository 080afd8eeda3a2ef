// Failed attempts by task and by where they went wrong; each group leads to some of its trajectories.

import { ask, queryString } from "./api.js";
import { h } from "./dom.js";
import { go } from "./navigation.js";
import { address, whole } from "./words.js";

const PURPOSES = ["evaluate", "train", "guided"];

export async function failuresView(search) {
  const runs = await ask("runs");
  const wanted = Object.fromEntries(["round", "app", "task", "fresh"].map((name) => [name, search.get(name)]));
  const filters = { run: search.get("run") ?? runs[0]?.run_id, purpose: search.get("purpose") ?? "evaluate", ...wanted };
  const { rounds, clusters } = await ask("failures", { run: filters.run, purpose: filters.purpose, round: filters.round });
  const shown = clusters.filter((each) => (!filters.app || each.app === filters.app) && (!filters.task || each.task === filters.task)
    && (!filters.fresh || each.is_new));
  const choose = (change) => `/failures${queryString({ ...filters, ...change })}`;
  const failed = shown.reduce((total, each) => total + each.attempts, 0);
  const node = h("section", { class: "page" },
    h("div", { class: "choices" },
      menu("Run", runs.map((run) => run.run_id), filters.run, (run) => choose({ run, round: null })),
      menu("Round", rounds.map(String), String(filters.round ?? rounds[0] ?? ""), (round) => choose({ round }), "round "),
      PURPOSES.map((purpose) => h("a", { class: "chip", href: choose({ purpose, round: null }), "aria-current": purpose === filters.purpose ? "true" : null }, purpose)),
      h("span", { class: "gap" }),
      h("a", { class: "chip", href: choose({ fresh: filters.fresh ? null : "yes" }), "aria-current": filters.fresh ? "true" : null }, "new since the policy before"),
      ["app", "task"].map((name) => filters[name] ? h("a", { class: "chip", href: choose({ [name]: null }) }, `${name}: ${filters[name]}`, h("span", {}, "×")) : null)),
    h("p", { class: "soft" }, clusters.length ? `${whole(failed)} failed attempts in ${whole(shown.length)} groups. The place is the first error that the judge named, else where the attempt ended.`
      : "No failed attempt here."),
    shown.length ? h("div", { class: "scroll" }, table(shown, filters, choose)) : null);
  return { node, title: "Failures" };
}

function menu(name, values, chosen, to, prefix = "") {
  return h("select", { "aria-label": name, onchange: (event) => go(to(event.target.value)) },
    values.map((value) => h("option", { value, selected: value === chosen }, prefix + value)));
}

function table(clusters, filters, choose) {
  return h("table", { class: "clusters" },
    h("thead", {}, h("tr", {}, h("th", {}, "failed"), ["task", "app", "screen", "what most did there", "trajectories"].map((word) => h("th", { class: "left" }, word)))),
    h("tbody", {}, clusters.map((each) => h("tr", {},
      h("td", { title: `${each.attempts} of ${each.tried} attempts at the task` }, `${whole(each.attempts)} of ${whole(each.tried)}`),
      h("td", { class: "left" }, h("a", { href: choose({ task: each.task }) }, each.task), each.is_new ? h("span", { class: "badge warn" }, "new") : null),
      h("td", { class: "left" }, h("a", { href: choose({ app: each.app }) }, each.app || "–")),
      h("td", { class: "left words" }, each.screen || "–"),
      h("td", { class: "left words" }, each.did, each.judged ? "" : h("span", { class: "soft" }, " (ended)")),
      h("td", { class: "left" }, each.examples.map((one, place) => [place ? " " : "",
        h("a", { class: "id", href: `${address({ ...one, run_id: filters.run })}?step=${one.step}` }, one.trajectory_id.slice(0, 8))]))))));
}
