// Two attempts side by side, step by step.

import { ask, part } from "./api.js";
import { h } from "./dom.js";
import { go } from "./navigation.js";
import { picture } from "./marks.js";
import { actionOf, actionWords, address, badge, tail } from "./words.js";

export async function compareView(search) {
  const names = ["a", "b"].map((side) => (search.get(side) ?? "").split("/"));
  if (names.some((name) => name.length !== 2)) throw new Error("choose two trajectories: press x on one row of a list, then on another");
  const pair = await Promise.all(names.map(([run, id]) => ask(`trajectories/${part(run)}/${part(id)}`)));
  const parting = firstDifference(pair);
  const length = Math.max(...pair.map((page) => page.steps.length));
  const same = pair[0].attempt.instruction === pair[1].attempt.instruction;
  const lines = Array.from({ length }, (_, index) => h("div", { class: `pair${index === parting ? " parting" : ""}`, id: `pair-${index}` },
    h("div", { class: "number" }, index + 1), pair.map((page) => side(page, index))));
  const node = h("section", { class: "page compare" },
    same ? h("h1", {}, pair[0].attempt.instruction) : null,
    h("div", { class: "pair heads" }, h("div", { class: "number" }), pair.map((page) => head(page, same))),
    h("p", { class: "soft" }, parting === null ? "Both did the same." : `They part at step ${parting + 1}.`),
    lines);
  const jump = () => parting !== null && document.getElementById(`pair-${parting}`).scrollIntoView({ block: "center" });
  return { node, title: "Compare", keys: { d: ["first difference", jump], "1": ["open the left one", () => go(address(pair[0].attempt))],
    "2": ["open the right one", () => go(address(pair[1].attempt))] } };
}

// Index of the first step at which they do something else; null if there is none. Layouts differ between attempts, so
// presses of the same element are the same, wherever it is.
function firstDifference([one, other]) {
  const length = Math.max(one.steps.length, other.steps.length);
  for (let index = 0; index < length; index += 1) {
    const [left, right] = [one.steps[index], other.steps[index]];
    if (!left || !right || meaning(left) !== meaning(right)) return index;
  }
  return null;
}

function meaning(step) {
  if (!step.target) return step.action;
  const { x, y, x2, y2, ...rest } = actionOf(step) ?? {};
  return JSON.stringify([rest, step.target.role, step.target.text]);
}

function head({ attempt }, same) {
  return h("div", { class: "head" },
    h("a", { href: address(attempt) }, attempt.trajectory_id.slice(0, 12)),
    h("div", { class: "facts" }, badge(attempt.outcome, "check"), badge(attempt.judged, "judge"), h("span", {}, `round ${attempt.round}`),
      h("span", {}, attempt.purpose), h("span", { title: attempt.model_version }, `policy ${tail(attempt.model_version)}`), h("span", {}, `${attempt.steps} steps`)),
    same ? null : h("p", {}, attempt.instruction));
}

function side(page, index) {
  const step = page.steps[index];
  if (!step) return h("div", { class: "side ended" }, index === page.steps.length ? `ended: ${page.attempt.stop_reason.replace("_", " ")}` : "");
  const verdicts = page.step_verdicts.filter((verdict) => verdict.index === index);
  return h("div", { class: "side" },
    h("a", { href: `${address(page.attempt)}?step=${index + 1}` }, picture(step.screen_before, page.screens[step.screen_before], step, { loading: "lazy" })),
    h("div", { class: "said" }, h("strong", {}, actionWords(actionOf(step))), verdicts.map((verdict) => badge(verdict.label, verdict.judge ?? "")),
      h("p", {}, step.conclusion), h("p", { class: "soft" }, step.thought)));
}
