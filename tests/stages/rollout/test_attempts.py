from __future__ import annotations

from collections import Counter

from tests.stages.rollout.toy import toy_query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import DEVICE_PROFILES, TRAINING_PROFILES, episode_seed, plan_rollouts

QUERIES = [toy_query(f"q{number}") for number in range(10)]


def test_every_query_gets_as_many_attempts_as_were_planned_each_with_its_own_seed() -> None:
    attempts = plan_rollouts(QUERIES, {"q0": 3, "q1": 1}, 0, 1)
    assert Counter(attempt.query.query_id for attempt in attempts) == {"q0": 3, "q1": 1}
    assert len({attempt.seed for attempt in attempts}) == 4
    assert plan_rollouts(QUERIES, {"q0": 3, "q1": 1}, 0, 1) == attempts


def test_training_and_evaluation_meet_different_devices() -> None:
    training = {episode_seed(0, r, f"q{q}", Purpose.TRAIN, 0) % DEVICE_PROFILES for r in range(9) for q in range(40)}
    measured = {episode_seed(0, r, f"q{q}", Purpose.EVALUATE, 0) % DEVICE_PROFILES for r in range(9) for q in range(40)}
    assert training == set(range(TRAINING_PROFILES))
    assert measured == set(range(TRAINING_PROFILES, DEVICE_PROFILES))


def test_policies_of_all_rounds_are_measured_on_equal_episodes() -> None:
    assert episode_seed(0, 1, "q", Purpose.EVALUATE, 0) == episode_seed(0, 5, "q", Purpose.EVALUATE, 0)
    assert episode_seed(0, 1, "q", Purpose.TRAIN, 0) != episode_seed(0, 5, "q", Purpose.TRAIN, 0)
