"""The figures of earlier attempts are read from all judgements, whenever they were made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stages.derive.samples import TAP, step
from tests.warehouse.samples import commit_rows, judgement, stage_run, trajectory
from trajmill.pipelines.reading.verdicts import read_history, read_judged, reward_moments
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import Warehouse, create_warehouse

QUERIES = ("q1", "q2", "q3")
RUN = "run-a"


@pytest.fixture
def run(tmp_path: Path) -> Warehouse:
    """Three rounds of four judged attempts of two steps, of which one was measured."""
    warehouse = create_warehouse(tmp_path)
    for number in (1, 2, 3):
        commit_round(warehouse, number)
    return warehouse


def commit_round(warehouse: Warehouse, number: int) -> list[str]:
    at, judge = stage_run("rollout", number), stage_run("judge", number)
    purposes = (Purpose.TRAIN, Purpose.TRAIN, Purpose.GUIDED, Purpose.EVALUATE)
    rows = [
        trajectory(place, at, QUERIES[(place + number) % 3], purpose=purpose, attempt=place, steps=2)
        for place, purpose in enumerate(purposes)
    ]
    steps = [
        step(index, TAP if (place + number + index) % 3 else None).model_copy(
            update={"trajectory_id": row.trajectory_id, "run_id": at.run_id, "round": number}
        )
        for place, row in enumerate(rows)
        for index in range(2)
    ]
    commit_rows(warehouse, at, *rows, *steps)
    ids = [row.trajectory_id for row in rows]
    commit_rows(
        warehouse, judge, *(judgement(name, judge, bool((place + number) % 2)) for place, name in enumerate(ids))
    )
    return ids


def test_attempts_that_were_judged_count_in_their_rounds(run: Warehouse) -> None:
    judged = read_judged(run, RUN, range(4))
    assert [(each.round, each.query_id, each.guided, each.correct) for each in judged[:4]] == [
        (1, "q1", True, True),
        (1, "q2", False, True),
        (1, "q3", False, False),
        (2, "q1", False, True),
    ]
    assert set(read_history(run, RUN, 4).queries) == set(QUERIES)
    assert len(reward_moments(run, RUN, 4, ())) == 3


def test_an_attempt_that_is_judged_in_a_later_round_counts_in_its_own(run: Warehouse) -> None:
    late = trajectory(9, stage_run("rollout", 1), "q1", attempt=9, steps=2)
    commit_rows(run, stage_run("more", 1), late)
    history, rewards = read_history(run, RUN, 4), reward_moments(run, RUN, 4, ())
    commit_rows(run, stage_run("judge", 4), judgement(late.trajectory_id, stage_run("judge", 4), True))
    assert read_history(run, RUN, 4) == history
    assert read_history(run, RUN, 5).queries["q1"] != history.queries["q1"]
    later = reward_moments(run, RUN, 5, ())
    assert later[0] != rewards[0] and later[1:] == rewards[1:]


def test_excluded_trajectories_are_left_out_of_the_rewards_of_their_round(run: Warehouse) -> None:
    own = commit_round(run, 4)
    some, every = reward_moments(run, RUN, 5, own[:1]), reward_moments(run, RUN, 5, ())
    assert some[:3] == every[:3] and some[3] != every[3]
