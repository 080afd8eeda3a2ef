from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stages.rollout.rolling import rolled_out
from tests.stages.rollout.toy import ToyAgent, ToyFactory, press_and_finish, toy_query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout import base
from trajmill.stages.rollout.base import (
    DEVICE_PROFILES,
    TRAINING_PROFILES,
    Outcomes,
    SlotBoard,
    SlotState,
    SlotView,
    episode_seed,
    plan_mixed,
    plan_rollouts,
)


async def test_every_attempt_is_recorded_once_with_few_environments() -> None:
    factory, agent = ToyFactory(), ToyAgent(press_and_finish)
    queries = [toy_query(f"q{number}") for number in range(20)]
    done = await rolled_out(queries, lambda query: agent, factory, concurrency=4)
    assert len({rollout.episode.trajectory.trajectory_id for rollout in done}) == len(done) == 20
    assert len(factory.made) <= 4 and all(environment.closed for environment in factory.made)


def test_a_board_says_what_each_slot_waits_for_and_where_the_time_went(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(base, "perf_counter", lambda: now)
    board = SlotBoard()
    first, second = board.add(), board.add()
    for slot in (first, second):
        slot.since = now
    with first.waiting(SlotState.INSTANCE):
        now = 1.0
        with first.waiting(SlotState.ENVIRONMENT):
            now = 4.0
        with first.waiting(SlotState.MODEL):
            first.step = 7
            now = 6.0
            assert board.views() == [SlotView(SlotState.MODEL, 7, 2.0), SlotView(SlotState.IDLE, 0, 6.0)]
            spent = board.spent()
    assert spent[SlotState.INSTANCE] == 1.0 and spent[SlotState.ENVIRONMENT] == 3.0
    assert spent[SlotState.MODEL] == 2.0 and spent[SlotState.IDLE] == 6.0
    assert sum(spent.values()) == 12.0, "two slots, six seconds"
    assert first.state is SlotState.IDLE
    with pytest.raises(ValueError, match="lost"), first.waiting(SlotState.MODEL):
        raise ValueError("lost")
    assert first.state is SlotState.IDLE


QUERIES = [toy_query(f"q{number}") for number in range(10)]


def test_attempts_have_seeds_of_their_own_by_which_evaluation_meets_other_devices() -> None:
    attempts = plan_rollouts(QUERIES, {"q0": 3, "q1": 1}, 0, 1)
    assert Counter(attempt.query.query_id for attempt in attempts) == {"q0": 3, "q1": 1}
    assert len({attempt.seed for attempt in attempts}) == 4
    assert plan_rollouts(QUERIES, {"q0": 3, "q1": 1}, 0, 1) == attempts
    assert plan_rollouts(QUERIES, {"q0": 1}, 0, 1, {"q0": 2}) == attempts[2:3], "numbers follow those of before"
    training = {episode_seed(0, r, f"q{q}", Purpose.TRAIN, 0) % DEVICE_PROFILES for r in range(9) for q in range(40)}
    measured = {episode_seed(0, r, f"q{q}", Purpose.EVALUATE, 0) % DEVICE_PROFILES for r in range(9) for q in range(40)}
    assert training == set(range(TRAINING_PROFILES))
    assert measured == set(range(TRAINING_PROFILES, DEVICE_PROFILES))
    assert episode_seed(0, 1, "q", Purpose.EVALUATE, 0) == episode_seed(0, 5, "q", Purpose.EVALUATE, 0)
    assert episode_seed(0, 1, "q", Purpose.TRAIN, 0) != episode_seed(0, 5, "q", Purpose.TRAIN, 0)


outcomes = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12
)


@given(outcomes, st.integers(0, 40), st.integers(3, 8), st.integers(0, 5))
def test_attempts_go_to_mixed_outcomes(given_: dict[str, tuple[int, int]], total: int, largest: int, seed: int) -> None:
    seen = {query_id: Outcomes(right + wrong, right) for query_id, (right, wrong) in given_.items()}
    more = plan_mixed(seen, total, largest, seed)
    assert all(given_[query_id][0] and given_[query_id][1] for query_id in more), "others are not mixed"
    room = {query_id: max(0, largest - each.tried) for query_id, each in seen.items() if each.are_mixed}
    assert sum(more.values()) == min(total, sum(room.values()))
    assert all(0 < attempts <= room[query_id] for query_id, attempts in more.items())
    unfilled = [more.get(query_id, 0) for query_id, left in room.items() if more.get(query_id, 0) < left]
    assert not unfilled or max(more.values(), default=0) - min(unfilled) <= 1
    assert plan_mixed(dict(reversed(seen.items())), total, largest, seed) == plan_mixed(seen, total, largest, seed)
