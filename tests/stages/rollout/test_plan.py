from __future__ import annotations

from collections import Counter

from schemas.trajectory import Purpose
from stages.rollout.plan import DEVICE_PROFILES, TRAINING_PROFILES, episode_seed, plan_rollouts
from tests.stages.rollout.toy import toy_query

QUERIES = [toy_query(f"q{number}") for number in range(10)]


def test_episodes_are_spread_by_weight() -> None:
    weights = {query.query_id: 3.0 if query.query_id == "q0" else 1.0 for query in QUERIES}
    counts = Counter(attempt.query.query_id for attempt in plan_rollouts(QUERIES, weights, 120, 0, 1))
    assert counts == {query.query_id: 30 if query.query_id == "q0" else 10 for query in QUERIES}


def test_what_does_not_divide_is_drawn_and_the_total_holds() -> None:
    weights = {query.query_id: 1.0 for query in QUERIES}
    attempts = plan_rollouts(QUERIES, weights, 25, 0, 1)
    assert len(attempts) == 25
    assert set(Counter(attempt.query.query_id for attempt in attempts).values()) == {2, 3}


def test_the_same_plan_again_is_the_same() -> None:
    weights = {query.query_id: 1.0 for query in QUERIES}
    assert plan_rollouts(QUERIES, weights, 7, 3, 2) == plan_rollouts(QUERIES, weights, 7, 3, 2)


def test_training_and_evaluation_meet_different_devices() -> None:
    training = {episode_seed(0, r, f"q{q}", Purpose.TRAIN, 0) % DEVICE_PROFILES for r in range(9) for q in range(40)}
    measured = {episode_seed(0, r, f"q{q}", Purpose.EVALUATE, 0) % DEVICE_PROFILES for r in range(9) for q in range(40)}
    assert training == set(range(TRAINING_PROFILES))
    assert measured == set(range(TRAINING_PROFILES, DEVICE_PROFILES))


def test_policies_of_all_rounds_are_measured_on_equal_episodes() -> None:
    assert episode_seed(0, 1, "q", Purpose.EVALUATE, 0) == episode_seed(0, 5, "q", Purpose.EVALUATE, 0)
    assert episode_seed(0, 1, "q", Purpose.TRAIN, 0) != episode_seed(0, 5, "q", Purpose.TRAIN, 0)
