// One trajectory, step by step.

import { ask, part, queryString } from "./api.js";
import { h, replace } from "./dom.js";
import { picture } from "./marks.js";
import { go, rememberedList } from "./navigation.js";
import { stepPanel } from "./step.js";
import { actionOf, actionWords, address, badge, moment, seconds, tail } from "./words.js";
import { verdictSummary, verdictTable } from "./verdicts.js";

export async function trajectoryView(search, run, id) {
  const path = `trajectories/${part(run)}/${part(id)}`;
  const page = await ask(path);
  const view = new TrajectoryView(page, Number(search.get("step")) || 1);
  ask(`${path}/training`).then((rows) => view.addTraining(rows), (error) => view.addTraining({ error: error.message }));
  return { node: view.node, title: page.attempt.instruction || id, keys: view.keys(), ready: () => view.show(view.at) };
}

class TrajectoryView {
  constructor(page, step) {
    this.page = page;
    this.training = null;
    this.after = false;
    this.marks = true;
    this.at = Math.min(Math.max(step - 1, 0), Math.max(page.steps.length - 1, 0));
    this.rail = page.steps.map((each) => this.railLine(each));
    this.stage = h("div", { class: "stage" });
    this.panel = h("div", { class: "panel" });
    this.node = h("section", { class: "trajectory" }, heading(page),
      h("div", { class: "columns" },
        h("ol", { class: "rail", tabindex: 0, "aria-label": "Steps" }, this.rail, h("li", { class: "end" }, ending(page))),
        this.stage, this.panel));
  }

  railLine(step) {
    const verdicts = this.page.step_verdicts.filter((verdict) => verdict.index === step.index);
    return h("li", { onclick: () => this.show(step.index) }, h("span", { class: "number" }, step.index + 1),
      h("div", {}, h("span", { class: "act" }, actionWords(actionOf(step))), h("span", { class: "concluded" }, step.conclusion)),
      h("span", { class: "dots" }, verdicts.map((verdict) => h("i", { class: `dot ${verdict.label}`, title: `${verdict.judge ?? "judge"}: ${verdict.label}` }))));
  }

  show(index) {
    if (!this.page.steps.length) {
      replace(this.stage, h("p", { class: "soft" }, "This attempt has no steps."));
      return;
    }
    this.rail[this.at].classList.remove("at");
    this.at = Math.min(Math.max(index, 0), this.page.steps.length - 1);
    this.rail[this.at].classList.add("at");
    this.rail[this.at].scrollIntoView({ block: "nearest", inline: "nearest" });
    this.draw();
    go(`${location.pathname}?step=${this.at + 1}`, { step: true });
  }

  draw() {
    const step = this.page.steps[this.at];
    const screen = this.after ? step.screen_after : step.screen_before;
    replace(this.stage,
      h("div", { class: "caption" },
        h("span", { class: "toggle" }, [["before", false], ["after", true]].map(([word, after]) =>
          h("button", { "aria-pressed": String(this.after === after), onclick: () => this.turn(after) }, word))),
        h("span", { class: "act" }, actionWords(actionOf(step))),
        h("span", { class: "soft" }, (this.after ? step.app_after : step.app_before) || "")),
      picture(screen, this.page.screens[screen], this.after || !this.marks ? null : step));
    replace(this.panel, stepPanel(this.page, step, this.training));
    this.fetchAhead(step);
  }

  // The next screen is loaded while this one is looked at.
  fetchAhead(step) {
    if (this.page.screens[step.screen_after]) new Image().src = `/api/screens/${part(step.screen_after)}`;
  }

  turn(after) {
    this.after = after;
    if (this.page.steps.length) this.draw();
  }

  addTraining(rows) {
    this.training = rows;
    if (this.page.steps.length && this.panel.isConnected) replace(this.panel, stepPanel(this.page, this.page.steps[this.at], rows));
  }

  keys() {
    const list = rememberedList();
    const here = list.rows.indexOf(address(this.page.attempt));
    const [next, before] = [list.rows[here + 1], here > 0 ? list.rows[here - 1] : undefined];
    const other = this.page.others[0];
    return { ArrowRight: ["next step", () => this.show(this.at + 1)], ArrowLeft: ["previous step", () => this.show(this.at - 1)],
      j: ["next step", () => this.show(this.at + 1)], k: ["previous step", () => this.show(this.at - 1)],
      Home: ["first step", () => this.show(0)], End: ["last step", () => this.show(this.page.steps.length - 1)],
      b: ["screen before or after", () => this.turn(!this.after)], f: ["large screen on or off", () => this.node.classList.toggle("large")], m: ["mark on or off", () => { this.marks = !this.marks; this.turn(this.after); }],
      n: ["next trajectory of the list", () => here >= 0 && next && go(next)], p: ["previous trajectory of the list", () => before && go(before)],
      u: ["back to the list", () => go(list.address)], c: ["compare with the newest other attempt", () => other && go(compareLink(this.page.attempt, other))] };
  }
}

const compareLink = (one, other) => `/compare${queryString({ a: `${one.run_id}/${one.trajectory_id}`, b: `${other.run_id}/${other.trajectory_id}` })}`;

function heading(page) {
  const { attempt, trajectory } = page;
  return h("header", { class: "about" },
    h("h1", {}, attempt.instruction || attempt.query_id),
    h("div", { class: "facts" },
      badge(attempt.outcome, "check"), badge(attempt.judged, "judge"),
      attempt.disagreement.map((kind) => badge(kind, "disagreement", "warn")),
      h("a", { href: `/trajectories${queryString({ run: attempt.run_id, round: attempt.round })}` }, `round ${attempt.round}`),
      h("span", {}, `${attempt.purpose}${attempt.split ? `, ${attempt.split}` : ""}`),
      h("a", { href: `/trajectories${queryString({ run: attempt.run_id, policy: attempt.model_version })}`, title: attempt.model_version }, `policy ${tail(attempt.model_version)}`),
      attempt.task ? h("a", { href: `/trajectories${queryString({ run: attempt.run_id, task: attempt.task })}` }, attempt.task) : null,
      h("span", {}, `${attempt.steps} steps in ${seconds(attempt.wall_ms / 1000)}`),
      attempt.written_at ? h("span", {}, `${moment(attempt.written_at)} UTC`) : null,
      h("code", { title: "trajectory" }, attempt.trajectory_id)),
    trajectory.failure_message ? h("p", { class: "error" }, `${trajectory.failure_class}: ${trajectory.failure_message}`) : null,
    trajectory.false_complete ? h("p", { class: "error" }, "false complete: the agent reported success, the check failed") : null,
    trajectory.side_effects?.length ? h("p", { class: "error" }, `side effects: ${trajectory.side_effects.join(", ")}`) : null,
    h("div", { class: "folds" }, fold(["Verdicts ", verdictSummary(page)], verdictTable(page), attempt.disagreement.length > 0),
      fold("Guidance", guidance(page.guidance), false), fold(`Other attempts at this query (${page.others.length})`, others(page), false),
      fold("Query", query(page.query), false)));
}

const fold = (title, body, open) => (body ? h("details", { open }, h("summary", {}, title), body) : null);

function guidance(hints) {
  if (!hints) return null;
  return [h("p", { class: "text" }, hints.text), h("p", { class: "soft" }, `from ${hints.source.replace("_", " ")} `, hints.source_trajectory
    ? h("a", { href: `/trajectories/${part(hints.run_id)}/${part(hints.source_trajectory)}` }, hints.source_trajectory.slice(0, 8)) : null)];
}

function others(page) {
  if (!page.others.length) return null;
  return h("table", { class: "small" }, page.others.map((row) => h("tr", {},
    h("td", {}, h("a", { href: address(row) }, row.trajectory_id.slice(0, 8))), h("td", {}, `round ${row.round}`), h("td", {}, row.purpose),
    h("td", {}, badge(row.outcome), " ", badge(row.judged)), h("td", {}, `${row.steps} steps`), h("td", { title: row.model_version }, tail(row.model_version)),
    h("td", {}, h("a", { href: compareLink(page.attempt, row) }, "side by side")))));
}

function query(asked) {
  if (!asked) return null;
  const rows = { id: asked.query_id, "raw instruction": asked.raw_instruction, apps: asked.apps.join(", "), source: asked.source, difficulty: asked.difficulty,
    slots: asked.slots.map((slot) => `${slot.name} = ${slot.value}`).join(", "), path: asked.path.map((step) => `${step.operation} ${step.target}`).join(" → "),
    goal: asked.goal, validation: asked.validation };
  return h("dl", { class: "pairs" }, Object.entries(rows).filter(([, value]) => value !== "" && value !== "{}").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function ending({ attempt, trajectory }) {
  return [`ended: ${attempt.stop_reason.replace("_", " ")}`, trajectory.answer ? h("span", { class: "concluded" }, `answer: ${trajectory.answer}`) : null];
}
