import pytest

from trajmill.stages.derive.rewards import RewardMoments, moments, reward_of, running_moments


def test_accuracy_and_format_are_kept_apart() -> None:
    assert reward_of(True, 0, 4) == (1.0, 0.0)
    assert reward_of(False, 0, 4) == (0.0, 0.0)
    assert reward_of(False, 1, 2).total == pytest.approx(-0.25)
    assert reward_of(False, 1, 1).total == pytest.approx(-0.5)


def test_earlier_batches_fade() -> None:
    running = running_moments([moments([0.0] * 10), moments([1.0] * 4)])
    assert running == RewardMoments(0.5, 0.5)
    assert running is not None and running.advantage(1.0) == pytest.approx(1.0, abs=1e-5)


def test_equal_rewards_say_nothing() -> None:
    assert running_moments([]) is None
    for reward in (0.0, 0.1, 1.0):
        running = running_moments([moments([reward] * 7)])
        assert running is not None and running.advantage(reward) == 0.0
