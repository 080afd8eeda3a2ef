// The verdicts of every judge on a trajectory, side by side.

import { h } from "./dom.js";
import { badge } from "./words.js";

const OWN = "the run's own";

export function verdictTable(page) {
  const judges = judgesOf(page);
  if (!judges.length) return null;
  return h("div", { class: "scroll" }, h("table", { class: "verdicts" },
    h("thead", {}, h("tr", {}, h("th", { class: "left" }, "judge"), judges.map((judge) => h("th", { class: "left" }, judge || OWN)))),
    h("tbody", {},
      h("tr", {}, h("th", { class: "left" }, "decision"), judges.map((judge) => h("td", { class: "left" }, decision(page, judge)))),
      channelsOf(page).map((channel) => h("tr", {}, h("th", { class: "left" }, channel),
        judges.map((judge) => h("td", { class: "left words" }, votes(page, judge, channel))))))));
}

// One badge for each judge and channel.
export function verdictSummary(page) {
  return judgesOf(page).map((judge) => {
    const latest = page.judgements.filter((row) => (row.judge ?? "") === judge).at(-1);
    const said = page.votes.filter((vote) => (vote.judge ?? "") === judge);
    return [latest ? badge(latest.correct ? "correct" : "incorrect", judge || OWN) : null, " ",
      said.map((vote) => [badge(vote.correct ? "correct" : "incorrect", vote.channel), " "])];
  });
}

function judgesOf({ judgements, votes: all, step_verdicts }) {
  return [...new Set([...judgements, ...all, ...step_verdicts].map((row) => row.judge ?? ""))].sort();
}

const channelsOf = (page) => [...new Set(page.votes.map((vote) => vote.channel))].sort();

function decision(page, judge) {
  const rows = page.judgements.filter((row) => (row.judge ?? "") === judge);
  const latest = rows.at(-1);
  if (!latest) return h("span", { class: "soft" }, "no decision");
  return [badge(latest.correct ? "correct" : "incorrect"), h("span", { class: "soft" }, ` ${latest.rule}`),
    latest.agreed ? null : badge("votes differ", "", "warn"),
    latest.first_error_step === null ? null : h("span", { class: "soft" }, `, first error at step ${latest.first_error_step + 1}`),
    latest.redundant_steps.length ? h("span", { class: "soft" }, `, not needed: ${latest.redundant_steps.map((index) => index + 1).join(", ")}`) : null];
}

function votes(page, judge, channel) {
  const rows = page.votes.filter((vote) => (vote.judge ?? "") === judge && vote.channel === channel);
  if (!rows.length) return "–";
  return rows.map((vote) => h("div", {}, badge(vote.correct ? "correct" : "incorrect", vote.resolution === "full" ? "" : `at ${vote.resolution}`), " ", vote.reason));
}
