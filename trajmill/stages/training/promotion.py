"""Decides whether a round trains a new policy, and whether that policy replaces the old one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from trajmill.stages.critics.calibration.agreement import Precision
from trajmill.stages.metrics.intervals import PairedOutcomes

Outcomes = Mapping[str, bool]
"""Whether a policy achieved each query, by query id; a query that could not be scored is missing."""


class Rival(NamedTuple):
    """A promoted policy that a new one is compared with."""

    version: str
    outcomes: Outcomes


class QueryGroup(NamedTuple):
    """Queries that are compared by themselves, so that a gain elsewhere hides no loss in them."""

    name: str
    query_ids: Collection[str]

    def outcomes(self, outcomes: Outcomes) -> list[bool]:
        return [outcomes[query] for query in self.query_ids if query in outcomes]


class Promotion(NamedTuple):
    promoted: bool
    reason: str


def _paired(old: Outcomes, new: Outcomes, query_ids: Collection[str]) -> PairedOutcomes:
    passed = Counter((old[query], new[query]) for query in query_ids if query in old and query in new)
    return PairedOutcomes(passed[True, True], passed[True, False], passed[False, True], passed[False, False])


def compare(
    new: Outcomes,
    old: Rival,
    promoted: Collection[Rival],
    groups: Sequence[QueryGroup],
    level: float,
    without_evidence: bool = False,
    unscored: Collection[str] = (),
) -> Promotion:
    """Promote a new policy unless it is significantly worse on a group of queries, unmeasured, or both fail.

    It is compared with the policy in force, `old`, and with the best of those promoted so far: small losses in a row,
    none of which is significant, add up. It is refused if the p-value of its losses is at most `level`, and, unless
    `without_evidence`, where neither it nor `old` achieves any query. Ties are promoted: where nearly every query is
    achieved, no policy can be significantly better, and the next round should learn from the newest policy.

    `unscored` are queries whose attempts by the new policy broke off. If they are most of a group, it is not measured.
    """
    compared: list[str] = []
    for group in groups:
        scored, rivals = group.outcomes(new), (old, *promoted)
        lacking = {*unscored}.union(*(() if scored else (rival.outcomes for rival in rivals)))
        if (missing := len(lacking.intersection(group.query_ids))) > len(scored):
            where = f"{missing} of {missing + len(scored)} attempts in {group.name} have no score (time limit, failure)"
            how = "raise rollout.max_seconds or mend the cause; `trajmill policy promote` overrules"
            return Promotion(False, f"not measured: {where}; {how}")
        best = max(rivals, key=lambda rival: sum(group.outcomes(rival.outcomes)))
        against: list[str] = []
        for rival in {each.version: each for each in (old, best)}.values():
            paired = _paired(rival.outcomes, new, group.query_ids)
            if not paired.queries:
                continue
            rate = f"{paired.passed_b}/{paired.queries} against {paired.passed_a} of {rival.version}"
            against.append(f"{rate} (won {paired.gained}, lost {paired.lost})")
            if (p_value := paired.p_value_of_losses) <= level:
                return Promotion(False, f"significantly worse (p = {p_value:.2g}): {group.name} {against[-1]}")
        if against:
            compared.append(f"{group.name} {' and '.join(against)}")
    if not compared:
        return Promotion(True, "not compared: no query has a score")
    all_queries = _paired(old.outcomes, new, {query for group in groups for query in group.query_ids})
    if not without_evidence and 0 < all_queries.queries == all_queries.neither:
        return Promotion(False, f"no evidence, neither achieves a query: {'; '.join(compared)}")
    return Promotion(True, f"not significantly worse: {'; '.join(compared)}")


def reason_not_to_train(
    rows: int, learns_from: str, accepted: int, dropped: Mapping[str, int], precision: Precision
) -> str:
    """Return why a round trains no policy; empty if it trains one.

    The release has `rows` for the recipe, from the table `learns_from`; examples were derived from `accepted`
    trajectories in all rounds so far; `dropped` counts, by reason, attempts or steps that gave no row. An unknown
    precision does not stop the training.
    """
    if rows:
        return "the judge's precision is under its floor" if precision is Precision.TOO_LOW else ""
    if learns_from != "rl_steps":
        if not accepted:
            return "no trajectory was accepted"
        most = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))[:3]
        named = ", ".join(f"{count} {reason}" for reason, count in most) or "its card says what"
        return f"the release leaves out every step of {accepted} accepted trajectories: {named}"
    if unknown := dropped.get("no_log_probabilities"):
        return (
            f"{unknown} replies have no log probabilities of their tokens, and no other gives an RL row: serve the "
            "policy so that it gives them (vLLM), or set rl.tokens = false and train.old_log_probs = 'recomputed'"
        )
    if old := dropped.get("stale_policy"):
        return f"{old} attempts are of versions that were replaced more than rl.max_staleness times"
    # Equal rewards are no fault, so they come last.
    return "no group has rewards that differ"
