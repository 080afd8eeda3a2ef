// Two policies of a run on the queries that both were measured on.

import { ask, part, queryString } from "./api.js";
import { h } from "./dom.js";
import { go } from "./navigation.js";
import { badge, percent, tail, whole } from "./words.js";

const SIDES = { gained: "only the second passed", lost: "only the first passed", both: "both passed", neither: "neither passed" };

export async function policiesView(search) {
  const runs = await ask("runs");
  const run = search.get("run") ?? runs[0]?.run_id;
  const { policies, a, b, groups, queries } = await ask("policies", { run, a: search.get("a"), b: search.get("b") });
  const side = search.get("side") ?? "lost";
  const filters = { run, a, b, side };
  const choose = (change) => `/policies${queryString({ ...filters, ...change })}`;
  const counts = Object.fromEntries(Object.keys(SIDES).map((name) => [name, queries.filter((each) => each.side === name)]));
  const node = h("section", { class: "page" },
    h("div", { class: "choices" },
      select("Run", runs.map(({ run_id }) => [run_id, run_id]), run, (value) => `/policies${queryString({ run: value })}`),
      select("First policy", policies.map(named), a, (value) => choose({ a: value })), "against",
      select("Second policy", policies.map(named), b, (value) => choose({ b: value }))),
    policies.length < 2 ? h("p", { class: "soft" }, "Two policies must have been measured on the same queries.") : [
      h("h2", {}, "Queries that changed sides"),
      h("div", { class: "choices" }, Object.entries(SIDES).map(([name, words]) =>
        h("a", { class: "chip", href: choose({ side: name }), "aria-current": name === side ? "true" : null }, words, h("span", {}, whole(counts[name].length))))),
      queryTable(counts[side] ?? [], run),
      h("h2", {}, "Success on the same queries"), h("p", { class: "soft" }, "All held-out queries, all splits and apps, and the tasks where a query changed sides. Intervals are Newcombe's for paired rates. p is from the exact McNemar test, Holm-adjusted over splits, apps or tasks."),
      h("div", { class: "scroll" }, groupTable(groups.filter(({ kind, gained, lost }) => kind !== "task" || gained || lost)))]);
  return { node, title: "Policies" };
}

const named = ({ policy, round }) => [policy, `${tail(policy)}, round ${round}`];

function select(name, values, chosen, to) {
  return h("select", { "aria-label": name, onchange: (event) => go(to(event.target.value)) },
    values.map(([value, words]) => h("option", { value, selected: value === chosen }, words)));
}

function groupTable(groups) {
  return h("table", { class: "versus" },
    h("thead", {}, h("tr", {}, ["", "name"].map((word) => h("th", { class: "left" }, word)), ["queries", "first", "second", "gained", "lost", "difference", "95 % interval", "p"].map((word) => h("th", {}, word)))),
    h("tbody", {}, groups.map((each) => h("tr", {},
      h("td", { class: "left soft" }, each.kind === "held out" ? "" : each.kind), h("td", { class: "left" }, each.name), h("td", {}, whole(each.queries)),
      h("td", {}, percent(each.first / each.queries)), h("td", {}, percent(each.second / each.queries)), h("td", {}, whole(each.gained)),
      h("td", {}, each.lost > each.gained ? badge(`${whole(each.lost)}`, "", "bad") : whole(each.lost)),
      h("td", {}, points(each.difference)), h("td", {}, `${points(each.low)} to ${points(each.high)}`), h("td", {}, each.p_value.toPrecision(2))))));
}

// A difference of rates in percentage points, always with its sign.
const points = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

function queryTable(queries, run) {
  if (!queries.length) return h("p", { class: "soft" }, "None.");
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ["split", "task", "instruction", ""].map((word) => h("th", { class: "left" }, word)))),
    h("tbody", {}, queries.map((each) => h("tr", {},
      h("td", { class: "left" }, each.split), h("td", { class: "left" }, each.task), h("td", { class: "left words" }, each.instruction),
      h("td", { class: "left" }, h("a", { class: "link", href: `/compare${queryString({ a: `${part(run)}/${part(each.a)}`, b: `${part(run)}/${part(each.b)}` })}` }, "side by side")))))));
}
