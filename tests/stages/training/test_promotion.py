from __future__ import annotations

from itertools import product

import pytest

from trajmill.stages.critics.calibration.agreement import Precision
from trajmill.stages.training.promotion import (
    PairedCounts,
    QueryGroup,
    Rival,
    compare,
    paired_counts,
    reason_not_to_train,
)


def outcomes(text: str) -> dict[str, bool]:
    """One query for each letter: `1` where it was achieved, `0` where it was not, `-` where it could not be scored."""
    return {f"q{number}": letter == "1" for number, letter in enumerate(text) if letter != "-"}


def group(name: str, first: int, last: int) -> QueryGroup:
    return QueryGroup(name, [f"q{number}" for number in range(first, last)])


ALL = group("all", 0, 20)


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (0, 5), (2, 7), (6, 6), (9, 1)])
def test_the_p_value_counts_the_ways_to_lose_as_much_by_chance(won: int, lost: int) -> None:
    coins = list(product((0, 1), repeat=won + lost))
    as_bad = sum(sum(flips) >= lost for flips in coins)
    assert PairedCounts(50, 20, 20, won, lost).p_value == pytest.approx(as_bad / len(coins))


def test_only_queries_with_both_outcomes_are_paired() -> None:
    assert paired_counts(outcomes("1100-1"), outcomes("10101-"), group("", 0, 6).query_ids) == (4, 2, 2, 1, 1)


@pytest.mark.parametrize(
    ("new", "promoted"),
    [
        ("1" * 10 + "0" * 10, True),
        ("1" * 6 + "0" * 10 + "0" * 4, True),
        ("1" * 5 + "0" * 15, False),
        ("0" * 5 + "1" * 15, True),
        ("-" * 19 + "0", False),
        ("-" * 20, False),
    ],
)
def test_a_policy_is_promoted_unless_it_is_significantly_worse(new: str, promoted: bool) -> None:
    old = Rival("v1", outcomes("1" * 10 + "0" * 10))
    decided = compare(outcomes(new), old, [old], [ALL], level=0.05)
    assert decided.promoted is promoted
    if new == "1" * 5 + "0" * 15:
        said = "significantly worse on validation (p = 0.031): all 5/20 against 10 of v1 (won 0, lost 5)"
        assert decided.reason == said


def test_what_was_measured_nowhere_is_promoted_only_where_nothing_can_be_measured() -> None:
    groups = [group("known", 0, 10), group("unseen", 10, 20)]
    old = Rival("v1", outcomes("1" * 10 + "0" * 4 + "-" * 6))
    decided = compare(outcomes("1" * 10 + "-" * 10), old, [old], groups, level=0.05)
    said = "not measured on validation: no attempt has a score in unseen, where 4 of v1 have one"
    assert decided == (False, said)
    newer = Rival("v2", outcomes("1" * 10 + "-" * 10))
    assert compare(newer.outcomes, newer, [old, newer], groups, level=0.05) == (False, said)
    nothing = Rival("v1", {})
    decided = compare({}, nothing, [nothing], groups, level=0.05)
    assert decided == (True, "not compared: no validation query has a score")


def test_a_higher_level_refuses_every_policy_that_loses_more_than_it_wins() -> None:
    old = Rival("v1", outcomes("1" * 10 + "0" * 10))
    new = outcomes("1" * 8 + "00" + "1" + "0" * 9)
    assert compare(new, old, [old], [ALL], level=0.05).promoted
    assert not compare(new, old, [old], [ALL], level=0.5).promoted


def test_a_gain_in_known_apps_hides_no_loss_in_others() -> None:
    groups = [group("known", 0, 10), group("unseen", 10, 20)]
    old = Rival("v1", outcomes("0" * 10 + "1" * 10))
    new = outcomes("1" * 10 + "1" * 4 + "0" * 6)
    assert compare(new, old, [old], [ALL], level=0.05).promoted
    decided = compare(new, old, [old], groups, level=0.05)
    assert not decided.promoted and "unseen 4/10 against 10 of v1" in decided.reason


def test_small_losses_in_a_row_add_up_against_the_best_policy_so_far() -> None:
    best = Rival("v1", outcomes("1" * 20))
    worse = Rival("v2", outcomes("1" * 16 + "0" * 4))
    newest = outcomes("1" * 13 + "0" * 7)
    assert compare(newest, worse, [worse], [ALL], level=0.05).promoted
    decided = compare(newest, worse, [best, worse], [ALL], level=0.05)
    assert not decided.promoted and "of v1" in decided.reason


def test_a_round_trains_unless_something_speaks_against_it() -> None:
    assert reason_not_to_train(1, "examples", 1, {}, Precision.ENOUGH, waits_for_last_round=False) == ""
    dropped = {"stale_policy": 3}
    assert reason_not_to_train(1, "rl_steps", 1, dropped, Precision.UNKNOWN, waits_for_last_round=False) == ""


@pytest.mark.parametrize(
    ("rows", "learns_from", "precision", "waits", "reason"),
    [
        (0, "examples", Precision.ENOUGH, False, "no trajectory was accepted"),
        (0, "rl_steps", Precision.ENOUGH, False, "no group has rewards that differ"),
        (1, "examples", Precision.TOO_LOW, False, "the judge's precision is under its floor"),
        (1, "examples", Precision.ENOUGH, True, "a frozen explorer is trained once, at the end"),
    ],
)
def test_the_reason_not_to_train_is_named(
    rows: int, learns_from: str, precision: Precision, waits: bool, reason: str
) -> None:
    assert reason_not_to_train(rows, learns_from, 0, {"no_spread": 4}, precision, waits) == reason


@pytest.mark.parametrize(
    ("dropped", "reason"),
    [
        ({"no_spread": 2, "no_log_probabilities": 6, "stale_policy": 1}, "6 replies have no log probabilities"),
        ({"no_spread": 2, "stale_policy": 4}, "4 attempts are of versions that were replaced more than"),
    ],
)
def test_replies_without_log_probabilities_and_old_attempts_are_named(dropped: dict[str, int], reason: str) -> None:
    assert reason_not_to_train(0, "rl_steps", 3, dropped, Precision.ENOUGH, False).startswith(reason)


def test_accepted_trajectories_that_give_no_example_are_no_missing_ones() -> None:
    dropped = {"harmful": 2, "benchmark_leak": 30, "duplicate": 2, "unparsed": 1}
    reason = reason_not_to_train(0, "examples", 7, dropped, Precision.ENOUGH, False)
    said = "the release leaves out every step of 7 accepted trajectories: 30 benchmark_leak, 2 duplicate, 2 harmful"
    assert reason == said


@pytest.mark.parametrize(
    ("old", "new", "allowed", "promoted"),
    [("0000", "0000", False, False), ("0000", "0000", True, True), ("0000", "0001", False, True)],
)
def test_where_both_achieve_nothing_there_is_no_evidence(old: str, new: str, allowed: bool, promoted: bool) -> None:
    rival = Rival("v1", outcomes(old))
    decided = compare(outcomes(new), rival, [rival], [ALL], 0.05, without_evidence=allowed)
    assert decided.promoted is promoted
    assert decided.reason.startswith("no evidence, neither achieves") is not promoted
