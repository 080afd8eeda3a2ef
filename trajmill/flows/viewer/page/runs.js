// Runs and their rounds.

import { ask, queryString } from "./api.js";
import { COEFFICIENTS, shareChart } from "./charts.js";
import { h } from "./dom.js";
import { badge, decimal, moment, money, percent, seconds, tail, whole } from "./words.js";

export async function runsView() {
  const runs = await ask("runs");
  const node = h("section", { class: "page" },
    runs.length ? runs.map(runSection) : h("p", { class: "soft" }, "No trajectory has landed yet; `trajmill evolve` makes some."));
  return { node, title: "Runs" };
}

function runSection(run) {
  const all = (filters) => `/trajectories${queryString({ run: run.run_id, ...filters })}`;
  return h("article", { class: "run" },
    h("h2", {}, h("a", { href: all({}) }, run.run_id)),
    h("p", { class: "soft" }, `${whole(run.attempts)} trajectories with ${whole(run.steps)} steps`,
      run.first ? `, from ${moment(run.first)} to ${moment(run.last)} UTC` : "",
      " · ", h("a", { class: "link", href: `/success${queryString({ run: run.run_id, purpose: "evaluate" })}` }, "success by app and task"),
      " · ", h("a", { class: "link", href: all({ disagreement: "with the check" }) }, "disagreements between judge and check")),
    run.rounds.length ? h("div", { class: "charts" }, successChart(run), judgeChart(run)) : null,
    h("div", { class: "scroll" }, roundTable(run, all)));
}

function successChart(run) {
  const [first] = run.rounds;
  const measured = [...first.before.map((share) => [first.round - 1, share]),
    ...run.rounds.flatMap((round) => round.success.map((share) => [round.round, share]))];
  const names = [...new Set(measured.map(([, share]) => share.name))];
  const lines = names.map((name) => ({ name, points: measured.filter(([, share]) => share.name === name)
    .map(([round, { share, low, high }]) => ({ round, share, low, high })) }));
  return h("figure", {}, h("figcaption", {}, "Success by split, percent"), shareChart(lines, "Success by split and round"));
}

function judgeChart(run) {
  const levels = [...new Set(run.rounds.flatMap((round) => round.judge.map((judge) => judge.level)))];
  const lines = levels.map((level) => ({ name: level, points: run.rounds.flatMap((round) =>
    round.judge.filter((judge) => judge.level === level && judge.kappa !== null)
      .map((judge) => ({ round: round.round, share: Math.max(0, judge.kappa) }))) }));
  return h("figure", {}, h("figcaption", {}, "Judge: kappa with the check"), shareChart(lines, "Kappa of the judge by round", COEFFICIENTS));
}

function roundTable(run, all) {
  const numbers = [...new Set([...run.counts.map((count) => count.round), ...run.rounds.map((round) => round.round)])].sort((a, b) => b - a);
  const splits = [...new Map(run.rounds.flatMap((round) => round.success.map((share) => [share.split, share.name])))];
  return h("table", { class: "rounds" },
    h("thead", {}, h("tr", {}, ["round", "ended", "attempts", "judged correct", "void"].map((word) => h("th", {}, word)),
      splits.map(([, name]) => h("th", {}, name)), ["kappa", "time", "cost"].map((word) => h("th", {}, word)),
      h("th", { class: "left" }, "policy"))),
    h("tbody", {}, numbers.map((number) => roundRow(run, number, splits, all))));
}

function roundRow(run, number, splits, all) {
  const round = run.rounds.find((card) => card.round === number);
  const counts = run.counts.filter((count) => count.round === number);
  const sum = (key) => counts.reduce((total, count) => total + count[key], 0);
  // The untrained policy is measured before the first round.
  const success = round?.success ?? (run.rounds[0]?.round === number + 1 ? run.rounds[0].before : []);
  const judge = round?.judge.find((each) => each.level === "trajectory");
  return h("tr", {},
    h("td", {}, h("a", { href: all({ round: number }) }, number)),
    h("td", { class: "soft" }, moment(round?.written_at)),
    h("td", { title: counts.map((count) => `${count.purpose}: ${count.attempts}`).join(", ") }, h("a", { href: all({ round: number }) }, whole(sum("attempts")))),
    h("td", {}, h("a", { href: all({ round: number, judged: "correct" }) }, whole(sum("accepted")))),
    h("td", {}, sum("void") ? h("a", { href: all({ round: number, outcome: "void" }) }, whole(sum("void"))) : "–"),
    splits.map(([split]) => {
      const share = success.find((each) => each.split === split);
      return h("td", {}, share ? h("a", { href: all({ round: number, split, purpose: "evaluate", outcome: "not passed" }),
        title: `${percent(share.low)} to ${percent(share.high)} of ${share.queries} queries; shows those that failed` }, percent(share.share)) : "–");
    }),
    h("td", {}, judge ? decimal(judge.kappa) : "–"),
    h("td", {}, round ? seconds(round.stages.reduce((total, stage) => total + stage.seconds, 0)) : "–"),
    h("td", {}, round ? money(round.stages.reduce((total, stage) => total + stage.cost, 0)) : "–"),
    h("td", { class: "left words" }, round ? decision(round) : badge(number ? "not ended" : "before training")));
}

function decision(round) {
  const promoted = round.trained && round.policy_after !== round.policy_before;
  const word = promoted ? "promoted" : round.trained ? "kept back" : "not trained";
  return [badge(word, "", promoted ? "good" : "flat"), " ", h("code", { title: round.policy_after }, tail(round.policy_after)),
    " ", ...why(round.reason ?? "")];
}

/** The first words of a reason; what follows the first colon is shown on demand. */
function why(reason) {
  const [, words, figures] = /^([^:]*): (.*)$/s.exec(reason) ?? [];
  return figures ? [h("details", { class: "soft" }, h("summary", {}, words), figures)] : [h("span", { class: "soft" }, reason)];
}
