// The list of trajectories with its filters.

import { ask, queryString } from "./api.js";
import { h } from "./dom.js";
import { go, rememberList } from "./navigation.js";
import { address, badge, seconds, tail, whole } from "./words.js";

const PLAIN = ["order", "after", "before", "limit", "text", "query"];
const ORDERS = { newest: "newest first", oldest: "oldest first", longest: "most steps", shortest: "fewest steps", slowest: "slowest" };
const NAMES = { judged: "judge", stop: "stopped by", failure: "failure class" };
const OPEN = 6;

export async function trajectoriesView(search) {
  const filters = filtersOf(search);
  const { order, after, before, limit, ...matching } = filters;
  const [page, facets] = await Promise.all([ask("trajectories", filters), ask("facets", matching)]);
  rememberList(location.pathname + location.search, page.rows.map(address));
  const list = new List(page, filters);
  const node = h("section", { class: "browse" },
    h("aside", { class: "facets", "aria-label": "Filters" }, saved(filters),
      Object.entries(facets).map(([name, values]) => facet(name, values, filters))),
    h("div", { class: "results" }, searchBar(filters, page), chips(filters), list.node, pager(page, filters)));
  return { node, title: "Trajectories", keys: { ...list.keys, ...pageKeys(page, filters),
    "/": ["search", () => node.querySelector("input[type=search]").focus()] }, ready: () => list.mark(0) };
}

function filtersOf(search) {
  const filters = {};
  for (const name of new Set(search.keys())) filters[name] = PLAIN.includes(name) ? search.get(name) : search.getAll(name);
  return filters;
}

// The address of the list with some filters changed; it begins at its first page.
function changed(filters, change) {
  const { after, before, ...rest } = filters;
  return `/trajectories${queryString({ ...rest, ...change })}`;
}

// Filters that this browser keeps, by the name that the reader gave them.
const SAVED = "saved filters";

function saved(filters) {
  const { after, before, ...kept } = filters;
  const here = `/trajectories${queryString(kept)}`;
  const all = readSaved();
  const store = (next) => { localStorage.setItem(SAVED, JSON.stringify(next)); dispatchEvent(new PopStateEvent("popstate")); };
  const name = h("input", { placeholder: "save these filters as …", "aria-label": "Name for these filters",
    onchange: (event) => event.target.value.trim() && store({ ...all, [event.target.value.trim()]: here }) });
  const rows = Object.entries(all).map(([words, link]) => h("div", { class: `saved${link === here ? " on" : ""}` }, h("a", { href: link, title: link }, words),
    h("button", { class: "quiet", "aria-label": `Forget ${words}`, onclick: () => store(Object.fromEntries(Object.entries(all).filter(([other]) => other !== words))) }, "×")));
  return rows.length || Object.keys(kept).length ? h("section", {}, h("h3", {}, "saved"), rows, Object.keys(kept).length ? name : null) : null;
}

function readSaved() {
  try {
    const all = JSON.parse(localStorage.getItem(SAVED) ?? "{}");
    return Object.fromEntries(Object.entries(all).filter(([, link]) => String(link).startsWith("/trajectories")));
  } catch {
    return {};
  }
}

function searchBar(filters, page) {
  const search = h("input", { type: "search", maxlength: 200, placeholder: "instruction, task, answer, failure or id", "aria-label": "Text", value: filters.text ?? "",
    onchange: (event) => go(changed(filters, { text: event.target.value })) });
  const order = h("select", { "aria-label": "Order", onchange: (event) => go(changed(filters, { order: event.target.value })) },
    Object.entries(ORDERS).map(([name, words]) => h("option", { value: name, selected: name === (filters.order ?? "newest") }, words)));
  return h("div", { class: "search" }, search, order, h("span", { class: "total" }, `${whole(page.total)} trajectories`));
}

function chips(filters) {
  const { order, after, before, limit, text, ...chosen } = filters;
  const all = Object.entries(chosen).flatMap(([name, values]) => [values].flat().map((value) => [name, value]));
  if (!all.length) return null;
  return h("div", { class: "chips" }, all.map(([name, value]) => {
    const rest = PLAIN.includes(name) ? "" : filters[name].filter((each) => each !== value);
    return h("a", { class: "chip", href: changed(filters, { [name]: rest }), title: "Remove this filter" }, `${NAMES[name] ?? name}: ${shortened(name, value)}`, h("span", {}, "×"));
  }), h("a", { class: "clear", href: "/trajectories" }, "clear all"));
}

const shortened = (name, value) => (name === "policy" || name === "query" ? tail(value) : value);

function facet(name, values, filters) {
  const chosen = filters[name] ?? [];
  if (values.length < 2 && !chosen.length) return null;
  const most = Math.max(...values.map((value) => value.attempts), 1);
  const rows = values.map(({ value, attempts }) => {
    const on = chosen.includes(String(value));
    const next = on ? chosen.filter((each) => each !== String(value)) : [...chosen, String(value)];
    return h("a", { class: `value${on ? " on" : ""}`, href: changed(filters, { [name]: next }), title: String(value), "--part": attempts / most,
      "aria-pressed": on ? "true" : "false", role: "button" },
      h("span", { class: "word" }, shortened(name, String(value))), h("span", { class: "count" }, whole(attempts)));
  });
  const many = rows.length > OPEN ? h("details", { open: values.slice(OPEN).some(({ value }) => chosen.includes(String(value))) },
    h("summary", {}, `${rows.length - OPEN} more`), rows.slice(OPEN)) : null;
  return h("section", {}, h("h3", {}, NAMES[name] ?? name), rows.slice(0, OPEN), many);
}

function pager(page, filters) {
  const { newer, older } = neighbours(page, filters);
  return h("div", { class: "pager" },
    newer ? h("a", { href: newer }, "← previous page") : h("span", { class: "soft" }, "← previous page"),
    older ? h("a", { href: older }, "next page →") : h("span", { class: "soft" }, "next page →"));
}

function neighbours(page, filters) {
  const { after, before, ...rest } = filters;
  const to = (change) => `/trajectories${queryString({ ...rest, ...change })}`;
  return { newer: page.first || !page.rows.length ? null : to({ before: page.rows[0].place }),
    older: page.last || !page.rows.length ? null : to({ after: page.rows.at(-1).place }) };
}

function pageKeys(page, filters) {
  const { newer, older } = neighbours(page, filters);
  return { n: ["next page", () => older && go(older)], p: ["previous page", () => newer && go(newer)] };
}

// The rows, one of which is marked; one more may be chosen to be compared with.
class List {
  constructor(page, filters) {
    this.page = page;
    this.at = 0;
    this.chosen = null;
    this.lines = page.rows.map((row, number) => this.line(row, number));
    this.node = h("table", { class: "attempts" },
      h("thead", {}, h("tr", {}, ["round", "for", "instruction", "outcome", "judge", "steps", "time", "policy", "id"].map((word, place) =>
        h("th", { class: `c${place}` }, word)))),
      h("tbody", {}, this.lines));
    if (!page.rows.length) this.node = h("p", { class: "soft empty" }, "No trajectory matches.", Object.keys(filters).length ? " Remove a filter." : "");
    this.keys = { j: ["next row", () => this.mark(this.at + 1)], k: ["previous row", () => this.mark(this.at - 1)],
      ArrowDown: ["next row", () => this.mark(this.at + 1)], ArrowUp: ["previous row", () => this.mark(this.at - 1)],
      Enter: ["open", () => page.rows.length && go(address(page.rows[this.at]))],
      x: ["choose this row, then another one to compare with", () => this.choose(this.at)] };
  }

  line(row, number) {
    const link = address(row);
    return h("tr", { onclick: (event) => event.target.closest("a") || go(link), onmousemove: () => number !== this.at && this.mark(number, false) },
      h("td", { class: "c0" }, row.round),
      h("td", { class: "c1" }, row.purpose, row.guidance_id && row.purpose !== "guided" ? " +hint" : ""),
      h("td", { class: "c2" }, h("a", { href: link }, row.instruction || row.query_id), h("span", { class: "apps" }, row.apps.join(" · "))),
      h("td", { class: "c3" }, badge(row.outcome), row.failure_class ? h("span", { class: "why", title: row.failure_message ?? "" }, row.failure_class) : ""),
      h("td", { class: "c4" }, badge(row.judged), row.disagreement.length ? h("span", { class: "differs", title: `disagreement ${row.disagreement.join(", ")}` }, "!") : ""),
      h("td", { class: "c5" }, row.steps),
      h("td", { class: "c6" }, seconds(row.wall_ms / 1000)),
      h("td", { class: "c7", title: row.model_version }, tail(row.model_version)),
      h("td", { class: "c8", title: row.trajectory_id }, row.trajectory_id.slice(0, 8)));
  }

  mark(number, scroll = true) {
    if (!this.lines.length) return;
    this.lines[this.at]?.classList.remove("at");
    this.at = Math.min(Math.max(number, 0), this.lines.length - 1);
    this.lines[this.at].classList.add("at");
    if (scroll) this.lines[this.at].scrollIntoView({ block: "nearest" });
  }

  choose(number) {
    if (this.chosen === null || this.chosen === number) {
      this.chosen = this.chosen === number ? null : number;
      this.lines[number].classList.toggle("chosen", this.chosen === number);
      return;
    }
    const [one, other] = [this.page.rows[this.chosen], this.page.rows[number]];
    go(`/compare${queryString({ a: `${one.run_id}/${one.trajectory_id}`, b: `${other.run_id}/${other.trajectory_id}` })}`);
  }
}
