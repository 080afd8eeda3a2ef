"""What is kept of earlier rewards is what a reader of all rounds finds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.pipelines.reading.test_candidates import opened
from tests.stages.derive.samples import TAP, step
from tests.warehouse.samples import commit_rows, judgement, stage_run, trajectory
from trajmill.pipelines.reading.reward_moments import Excluded, reward_moments
from trajmill.stages.derive.rewards import RewardMoments
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse

ATTEMPTS = 4


def commit_round(warehouse: Warehouse, number: int) -> list[str]:
    """Commit attempts of two steps, some of them wrong or with a reply that nobody can read; returns their ids."""
    at, judge = stage_run("rollout", number), stage_run("judge", number)
    rows = [trajectory(place, at, f"q{place}", attempt=place, steps=2) for place in range(ATTEMPTS)]
    steps = [
        step(index, TAP if (place + number + index) % 3 else None).model_copy(
            update={"trajectory_id": row.trajectory_id, "run_id": at.run_id, "round": number}
        )
        for place, row in enumerate(rows)
        for index in range(2)
    ]
    commit_rows(warehouse, at, *rows, *steps)
    ids = [row.trajectory_id for row in rows]
    commit_rows(warehouse, judge, *(judgement(name, judge, place < number) for place, name in enumerate(ids)))
    return ids


@pytest.fixture(scope="module")
def three_rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rounds, each read when it was committed."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("rounds") / "root")
    for number in (1, 2, 3):
        commit_round(warehouse, number)
        read(warehouse, number + 1)
    return warehouse.root


@pytest.fixture
def run(three_rounds: Path, tmp_path: Path) -> Warehouse:
    return open_warehouse(shutil.copytree(three_rounds, tmp_path / "root"))


def read(warehouse: Warehouse, before: int, without: Excluded | None = None) -> list[RewardMoments]:
    return reward_moments(warehouse, "run-a", before, without or Excluded(frozenset(), before))


def read_anew(warehouse: Warehouse, before: int, without: Excluded | None = None) -> list[RewardMoments]:
    for file in warehouse.store.files("runs/run-a/rewards"):
        warehouse.store.delete(file.name)
    return read(warehouse, before, without)


def test_a_round_reads_the_rewards_of_the_round_before_it(run: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_round(run, 4)
    names = opened(monkeypatch)
    kept = read(run, 5)
    assert names and all(name.startswith("r0004-") for name in names)
    names.clear()
    assert read(run, 5) == kept and names == []
    assert kept == read_anew(run, 5) and len(kept) == 4 and len(set(kept)) > 2


def test_excluded_trajectories_are_left_out_of_their_rounds_alone(run: Warehouse) -> None:
    own = commit_round(run, 4)
    without = Excluded(frozenset(own[:1]), since=4)
    some, every = read(run, 5, without), read(run, 5)
    assert some[:3] == every[:3] and some[3] != every[3]
    assert some == read_anew(run, 5, without) and read(run, 5) == every


def test_an_attempt_that_is_judged_late_counts_in_its_own_round(run: Warehouse) -> None:
    late = trajectory(9, stage_run("rollout", 1), "q1", attempt=9, steps=2)
    commit_rows(run, stage_run("more", 1), late)
    before = read(run, 4)
    commit_round(run, 4)
    again = stage_run("judge_again", 4)
    commit_rows(run, again, judgement(late.trajectory_id, again, True))
    assert read(run, 4) == before
    since = Excluded(frozenset(), since=3)
    later = read(run, 5, since)
    assert later[0] != before[0] and later[1:3] == before[1:3]
    assert read(run, 5) == read(run, 5, since) == read_anew(run, 5)
    commit_round(run, 5)
    assert read(run, 6) == read_anew(run, 6)
