// What is known of one step: thought, reply, verdicts, and the training rows that came of it.

import { ask, part } from "./api.js";
import { h, replace } from "./dom.js";
import { actionOf, badge } from "./words.js";

export function stepPanel(page, step, training) {
  const verdicts = page.step_verdicts.filter((verdict) => verdict.index === step.index);
  return [
    text("Thought", step.thought), text("Conclusion", step.conclusion),
    step.target ? h("section", {}, h("h3", {}, "Element"), h("p", {}, h("code", {}, step.target.role), ` ${step.target.text}`)) : null,
    verdicts.length ? h("section", {}, h("h3", {}, "Verdicts"), verdicts.map(verdict)) : null,
    roles(step.role_outputs), trainingSection(step, training),
    folded("Reply", step.raw_response), folded("Action", pretty(actionOf(step)) ?? "none"), folded("Prompt", step.prompt),
    callsSection(page.attempt, step),
  ];
}

const text = (title, words) => (words ? h("section", {}, h("h3", {}, title), h("p", { class: "text" }, words)) : null);
const folded = (title, words) => (words ? h("details", {}, h("summary", {}, title), h("pre", {}, words)) : null);
const pretty = (value) => (value === null ? null : JSON.stringify(value, null, 1));

function verdict(row) {
  return h("div", { class: "verdict" }, h("div", {}, badge(row.label), h("span", { class: "soft" }, ` ${row.judge ?? "the run's own judge"} · ${row.made_by}`)),
    h("p", {}, row.summary), row.analysis && row.analysis !== row.summary ? h("p", { class: "soft text" }, row.analysis) : null);
}

function roles(outputs) {
  let parsed;
  try {
    parsed = JSON.parse(outputs);
  } catch {
    return folded("Other roles", outputs);
  }
  const entries = Object.entries(parsed ?? {});
  if (!entries.length) return null;
  return h("section", {}, h("h3", {}, "Other roles"), h("dl", { class: "pairs" }, entries.map(([name, value]) =>
    [h("dt", {}, name), h("dd", { class: "text" }, typeof value === "string" ? value : pretty(value))])));
}

function trainingSection(step, training) {
  if (!training) return h("section", {}, h("h3", {}, "Training rows"), h("p", { class: "soft" }, "…"));
  if (training.error) return h("section", {}, h("h3", {}, "Training rows"), h("p", { class: "error" }, training.error));
  const examples = training.examples.filter(({ example }) => example.step_index === step.index);
  const updates = training.rl_steps.filter((row) => row.step_index === step.index);
  const none = h("p", { class: "soft" }, training.examples.length || training.rl_steps.length ? "none of this step" : "none of this trajectory");
  return h("section", {}, h("h3", {}, "Training rows"), examples.map(exampleRow), updates.map(updateRow), examples.length || updates.length ? null : none);
}

function exampleRow({ example, releases }) {
  return h("details", { class: "example" }, h("summary", {}, h("code", {}, example.kind), ` weight ${Number(example.loss_weight.toFixed(3))} `,
    releases.length ? releases.map((name) => h("span", { class: "chip" }, name)) : h("span", { class: "soft" }, "in no release")),
    example.messages.map((message) => h("div", { class: "message" }, h("span", { class: "soft" }, message.role), h("pre", {}, content(message)))),
    h("p", { class: "soft" }, "screens ", example.screens.map((id) => [h("a", { href: `/api/screens/${part(id)}`, target: "_blank", rel: "noreferrer" }, id.slice(0, 8)), " "])));
}

const content = (message) => (typeof message.content === "string" ? message.content : pretty(message.content));

function updateRow(row) {
  return h("p", {}, h("code", {}, "rl"), ` round ${row.round}, reward ${row.reward}, advantage ${Number(row.advantage.toFixed(3))}, weight ${Number(row.step_weight.toFixed(3))} `,
    row.replayed ? badge("replayed") : null);
}

// The requests to models at a step, which are fetched when somebody wants to see them.
function callsSection(attempt, step) {
  const body = h("div", {}, "…");
  const load = () => ask(`trajectories/${part(attempt.run_id)}/${part(attempt.trajectory_id)}/calls`).then(
    (calls) => replace(body, calls.filter((call) => call.step_index === step.index).map(callRow), h("p", { class: "soft" },
      calls.some((call) => call.step_index === step.index) ? "" : "none at this step")),
    (error) => replace(body, h("p", { class: "error" }, error.message)));
  return h("details", { ontoggle: (event) => event.target === event.currentTarget && event.target.open && load() }, h("summary", {}, "Model calls"), body);
}

function callRow(call) {
  const used = `${call.input_tokens} + ${call.output_tokens} tokens, ${Math.round(call.latency_ms)} ms${call.price ? `, ${call.price}` : ""}${call.cached ? ", from the cache" : ""}`;
  return h("section", {}, h("p", {}, h("code", {}, call.role), h("span", { class: "soft" }, ` ${call.judge ?? ""} ${call.made_by} · ${used}`)),
    call.error ? h("p", { class: "error" }, call.error) : null, folded("was asked", asked(call.messages)), call.response ? h("pre", {}, call.response) : null);
}

function asked(messages) {
  try {
    return pretty(JSON.parse(messages));
  } catch {
    return messages;
  }
}
