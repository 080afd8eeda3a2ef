from __future__ import annotations

from trajmill.stages.curate.reflector import Reflection, balanced_reflections


def said(trajectory: str, marks: str) -> list[Reflection]:
    """Reflections on the steps of a trajectory: + is positive, - negative."""
    return [Reflection(trajectory, index, mark == "+") for index, mark in enumerate(marks)]


def test_a_negative_reflection_stays_if_the_next_step_was_positive() -> None:
    kept = balanced_reflections([*said("a", "+-+--+-"), *said("clean", "+++++")], seed=0)
    assert [(each.step_index) for each in kept if not each.positive] == [1, 4]


def test_positive_reflections_come_only_from_trajectories_without_a_negative_one_and_both_are_equally_many() -> None:
    rows = [*said("a", "-+-+-+"), *said("b", "++"), *said("c", "++++++"), *said("d", "++++-")]
    kept = balanced_reflections(rows, seed=0)
    positive = [each for each in kept if each.positive]
    assert {each.trajectory_id for each in positive} <= {"b", "c"}
    assert len(positive) == len(kept) - len(positive) == 3
    assert kept == balanced_reflections(rows[::-1], seed=0)
    assert any(balanced_reflections(rows, seed) != kept for seed in range(1, 5))


def test_one_side_alone_gives_nothing() -> None:
    assert balanced_reflections(said("a", "+++"), seed=0) == []
    assert balanced_reflections(said("a", "-+-"), seed=0) == []
    assert balanced_reflections([], seed=0) == []
