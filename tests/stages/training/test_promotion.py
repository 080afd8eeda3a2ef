from itertools import product

import pytest

from trajmill.stages.critics.calibration.agreement import Precision
from trajmill.stages.metrics.intervals import PairedOutcomes
from trajmill.stages.training.promotion import QueryGroup, Rival, compare, reason_not_to_train


def outcomes(text: str) -> dict[str, bool]:
    """One query for each letter: `1` where it was achieved, `0` where it was not, `-` where it could not be scored."""
    return {f"q{number}": letter == "1" for number, letter in enumerate(text) if letter != "-"}


def group(name: str, first: int, last: int) -> QueryGroup:
    return QueryGroup(name, [f"q{number}" for number in range(first, last)])


ALL = group("all", 0, 20)
TWO = [group("known", 0, 10), group("unseen", 10, 20)]
HALF = Rival("v1", outcomes("1" * 10 + "0" * 10))


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (0, 5), (2, 7), (6, 6), (9, 1)])
def test_the_p_value_counts_the_ways_to_lose_as_much_by_chance(won: int, lost: int) -> None:
    coins = list(product((0, 1), repeat=won + lost))
    as_bad = sum(sum(flips) >= lost for flips in coins)
    assert PairedOutcomes(20, lost, won, 10).p_value_of_losses == pytest.approx(as_bad / len(coins))


def test_a_policy_is_promoted_unless_it_is_significantly_worse() -> None:
    def decided(new: str, level: float = 0.05) -> tuple[bool, str]:
        broken_off = [f"q{number}" for number, letter in enumerate(new) if letter == "-"]
        return compare(outcomes(new), HALF, [HALF], [ALL], level, unscored=broken_off)

    for new in ("1" * 10 + "0" * 10, "1" * 6 + "0" * 14, "0" * 5 + "1" * 15, "1" * 8 + "001" + "0" * 9):
        assert decided(new)[0]
    said = "significantly worse (p = 0.031): all 5/20 against 10 of v1 (won 0, lost 5)"
    assert decided("1" * 5 + "0" * 15) == (False, said)
    assert not decided("1" * 8 + "001" + "0" * 9, level=0.5)[0]
    assert decided("1" * 10 + "-" * 10)[0] and not decided("-" * 20)[0]
    promoted, said = decided("1" * 9 + "-" * 11)
    assert not promoted and said.startswith(
        "not measured: 11 of 20 attempts in all have no score (time limit, failure)"
    )


def test_what_was_measured_nowhere_is_promoted_only_where_nothing_can_be_measured() -> None:
    old = Rival("v1", outcomes("1" * 10 + "0" * 4 + "-" * 6))
    newer = Rival("v2", outcomes("1" * 10 + "-" * 10))
    for before, others in ((old, [old]), (newer, [old, newer])):
        decided = compare(newer.outcomes, before, others, TWO, level=0.05)
        assert not decided.promoted
        assert decided.reason.startswith("not measured: 4 of 4 attempts in unseen have no score (time limit, failure);")
    nothing = Rival("v1", {})
    decided = compare({}, nothing, [nothing], TWO, level=0.05)
    assert decided == (True, "not compared: no query has a score")


def test_a_gain_hides_no_loss_elsewhere_and_small_losses_add_up_against_the_best_policy_so_far() -> None:
    old = Rival("v1", outcomes("0" * 10 + "1" * 10))
    new = outcomes("1" * 10 + "1" * 4 + "0" * 6)
    assert compare(new, old, [old], [ALL], level=0.05).promoted
    decided = compare(new, old, [old], TWO, level=0.05)
    assert not decided.promoted and "unseen 4/10 against 10 of v1" in decided.reason
    best, worse = Rival("v1", outcomes("1" * 20)), Rival("v2", outcomes("1" * 16 + "0" * 4))
    newest = outcomes("1" * 13 + "0" * 7)
    assert compare(newest, worse, [worse], [ALL], level=0.05).promoted
    decided = compare(newest, worse, [best, worse], [ALL], level=0.05)
    assert not decided.promoted and "of v1" in decided.reason


@pytest.mark.parametrize(
    ("old", "new", "allowed", "promoted"),
    [("0000", "0000", False, False), ("0000", "0000", True, True), ("0000", "0001", False, True)],
)
def test_where_both_achieve_nothing_there_is_no_evidence(old: str, new: str, allowed: bool, promoted: bool) -> None:
    rival = Rival("v1", outcomes(old))
    decided = compare(outcomes(new), rival, [rival], [ALL], 0.05, without_evidence=allowed)
    assert decided.promoted is promoted
    assert decided.reason.startswith("no evidence, neither achieves") is not promoted


def test_a_round_trains_unless_something_speaks_against_it() -> None:
    enough = Precision.ENOUGH
    assert reason_not_to_train(1, "examples", 1, {}, enough) == ""
    assert reason_not_to_train(1, "rl_steps", 1, {"stale_policy": 3}, Precision.UNKNOWN) == ""
    too_low = reason_not_to_train(1, "examples", 1, {}, Precision.TOO_LOW)
    assert too_low == "the judge's precision is under its floor"
    assert reason_not_to_train(0, "examples", 0, {"no_spread": 4}, enough) == "no trajectory was accepted"
    assert reason_not_to_train(0, "rl_steps", 0, {"no_spread": 4}, enough) == "no group has rewards that differ"
    dropped = {"no_spread": 2, "no_log_probabilities": 6, "stale_policy": 4}
    unknown = reason_not_to_train(0, "rl_steps", 3, dropped, enough)
    assert unknown.startswith("6 replies have no log probabilities")
    old = reason_not_to_train(0, "rl_steps", 3, {"no_spread": 2, "stale_policy": 4}, enough)
    assert old.startswith("4 attempts are of versions that were replaced more than")
    dropped = {"harmful": 2, "benchmark_leak": 30, "duplicate": 2, "unparsed": 1}
    left_out = reason_not_to_train(0, "examples", 7, dropped, enough)
    said = "the release leaves out every step of 7 accepted trajectories: 30 benchmark_leak, 2 duplicate, 2 harmful"
    assert left_out == said
