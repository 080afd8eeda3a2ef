from __future__ import annotations

from pathlib import Path

import pytest

from tests.warehouse.samples import commit_rows, judgement, stage_run, trajectory
from trajmill.pipelines.reading.history import read_history, read_judged
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.history import History
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.upkeep.compact import compact_table

QUERIES = ("q1", "q2", "q3")


@pytest.fixture
def run(tmp_path: Path) -> Warehouse:
    """Three rounds, whose newest was read once before its judgements came."""
    warehouse = create_warehouse(tmp_path)
    for number in (1, 2, 3):
        commit_round(warehouse, number)
    return warehouse


def commit_round(warehouse: Warehouse, number: int) -> None:
    at, judge = stage_run("rollout", number), stage_run("judge", number)
    purposes = (Purpose.TRAIN, Purpose.TRAIN, Purpose.GUIDED, Purpose.EVALUATE)
    rows = [
        trajectory(place, at, QUERIES[(place + number) % 3], purpose=purpose, attempt=place, steps=3 + place % 2)
        for place, purpose in enumerate(purposes)
    ]
    commit_rows(warehouse, at, *rows)
    read_history(warehouse, at.run_id, number + 1)
    commit_rows(
        warehouse,
        judge,
        *(judgement(row.trajectory_id, judge, bool((place + number) % 2)) for place, row in enumerate(rows)),
    )


def read_whole(warehouse: Warehouse, before: int) -> History:
    return History.of(read_judged(warehouse, "run-a", range(before)).attempts)


def same(warehouse: Warehouse, before: int) -> bool:
    found, wanted = read_history(warehouse, "run-a", before), read_whole(warehouse, before)
    return list(found.queries.items()) == list(wanted.queries.items()) and len(found.queries) > 0


@pytest.mark.parametrize("before", [2, 3, 4])
def test_kept_figures_are_those_of_all_attempts(run: Warehouse, before: int) -> None:
    assert same(run, before)
    assert same(run, before)


def test_a_kept_round_is_not_read_again(run: Warehouse) -> None:
    figures = read_history(run, "run-a", 3)
    wanted = read_whole(run, 4)
    for path in committed_files(run, "trajectories", rounds=[1, 2]):
        path.write_bytes(b"")
    assert read_history(run, "run-a", 3) == figures
    assert read_history(run, "run-a", 4) == wanted


def test_files_that_were_joined_are_read_again(run: Warehouse) -> None:
    before = read_history(run, "run-a", 4)
    assert compact_table(run, "judgements", fewest=2).files_after < 3
    assert same(run, 4)
    assert read_history(run, "run-a", 4) == before


def test_an_attempt_that_is_judged_in_a_later_round_is_counted_in_its_own(run: Warehouse) -> None:
    late = trajectory(9, stage_run("rollout", 1), "q1", attempt=9)
    commit_rows(run, stage_run("more", 1), late)
    assert same(run, 4)
    commit_rows(run, stage_run("judge", 4), judgement(late.trajectory_id, stage_run("judge", 4), True))
    assert same(run, 4)
    assert same(run, 5)
    assert read_history(run, "run-a", 5) != read_history(run, "run-a", 4)


def test_damaged_figures_are_made_anew(run: Warehouse) -> None:
    wanted = read_history(run, "run-a", 4)
    for path in (run.root / "runs" / "run-a" / "history").iterdir():
        text = path.read_text(encoding="utf-8")
        assert '"tried":' in text
        path.write_text(text.replace('"tried":1', '"tried":7').replace('"tried":2', '"tried":8'), encoding="utf-8")
    assert read_history(run, "run-a", 4) == wanted


def test_figures_of_long_ago_are_deleted(run: Warehouse) -> None:
    for before in (2, 3, 4):
        read_history(run, "run-a", before)
    assert len(list((run.root / "runs" / "run-a" / "history").iterdir())) == 2
