from __future__ import annotations

import pytest

from trajmill.schemas.tables.query import Platform
from trajmill.stages.queries.proposals.starts import StartingPoint, in_turn

STARTS = [StartingPoint(Platform.PHONE, (app,)) for app in "abcde"]


@pytest.mark.parametrize("wanted", [1, 2, 3, 5])
def test_over_the_rounds_all_have_their_turn(wanted: int) -> None:
    rounds = [in_turn(STARTS, wanted, number) for number in range(1, len(STARTS) + 1)]
    assert all(len(chosen) == wanted for chosen in rounds)
    times = [sum(ground in chosen for chosen in rounds) for ground in STARTS]
    assert times == [wanted] * len(STARTS)


def test_no_more_are_chosen_than_there_are() -> None:
    assert sorted(in_turn(STARTS, 8, 2)) == STARTS
    assert in_turn([], 3, 1) == []
