from __future__ import annotations

import pytest

from trajmill.schemas.tables.query import Platform
from trajmill.stages.queries.proposals.starting_points import Ground, in_turn

GROUNDS = [Ground(Platform.PHONE, (app,)) for app in "abcde"]


@pytest.mark.parametrize("wanted", [1, 2, 3, 5])
def test_over_the_rounds_all_have_their_turn(wanted: int) -> None:
    rounds = [in_turn(GROUNDS, wanted, number) for number in range(1, len(GROUNDS) + 1)]
    assert all(len(chosen) == wanted for chosen in rounds)
    times = [sum(ground in chosen for chosen in rounds) for ground in GROUNDS]
    assert times == [wanted] * len(GROUNDS)


def test_no_more_are_chosen_than_there_are() -> None:
    assert sorted(in_turn(GROUNDS, 8, 2)) == GROUNDS
    assert in_turn([], 3, 1) == []
