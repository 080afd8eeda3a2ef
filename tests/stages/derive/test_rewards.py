from __future__ import annotations

import math
import statistics

import pytest

from trajmill.stages.derive.rewards import RewardMoments, moments, reward_of, running_moments


def test_accuracy_and_format_are_kept_apart() -> None:
    assert reward_of(True, 0, 4) == (1.0, 0.0)
    assert reward_of(False, 0, 4) == (0.0, 0.0)
    assert reward_of(False, 1, 2).total == pytest.approx(-0.25)
    assert reward_of(False, 1, 1).total == pytest.approx(-0.5)


def test_the_first_batch_is_normalised_by_its_own_mean_and_deviation() -> None:
    rewards = [1.0, 0.0, 0.0, -0.5]
    running = running_moments([moments(rewards)])
    assert running is not None
    assert running.mean == pytest.approx(statistics.fmean(rewards))
    assert running.deviation == pytest.approx(statistics.pstdev(rewards))
    advantages = [running.advantage(reward) for reward in rewards]
    assert math.fsum(advantages) == pytest.approx(0.0, abs=1e-9)
    assert statistics.pstdev(advantages) == pytest.approx(1.0, abs=1e-5)


def test_earlier_batches_fade() -> None:
    running = running_moments([moments([0.0] * 10), moments([1.0] * 4)])
    assert running == RewardMoments(0.5, 0.5)
    assert running is not None and running.advantage(1.0) == pytest.approx(1.0, abs=1e-5)


def test_equal_rewards_say_nothing() -> None:
    assert running_moments([]) is None
    for reward in (0.0, 0.1, 1.0):
        running = running_moments([moments([reward] * 7)])
        assert running is not None and running.advantage(reward) == 0.0
