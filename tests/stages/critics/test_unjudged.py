"""Which trajectories are judged again."""

from __future__ import annotations

from trajmill.stages.critics.judge import TRIED_AT_MOST, Unjudged, still_to_judge, to_judge_again


def test_what_is_judged_or_given_up_is_left_out() -> None:
    failed_tries = {"often": TRIED_AT_MOST, "once": 1, "late": 1}
    assert still_to_judge(["once", "often", "late", "new"], failed_tries, {"late"}) == {"once": 1, "new": 0}


def test_only_what_failed_before_is_judged_again_in_order() -> None:
    rounds = {"b": 2, "c": 1, "a": 2, "new": 1}
    again = to_judge_again(rounds, {"a": 1, "b": 2, "c": 1, "foreign": 1}, judged=())
    assert again == [Unjudged(1, "c", 1), Unjudged(2, "a", 1), Unjudged(2, "b", 2)]
