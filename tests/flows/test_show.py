from __future__ import annotations

from pathlib import Path

import pytest

from tests.warehouse.samples import commit_rows, judgement, query, stage_run, trajectory
from trajmill.flows.view.show import find_trajectory
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import Warehouse, create_warehouse

FIRST, SECOND = stage_run("judge", 1), stage_run("judge", 2)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = create_warehouse(tmp_path / "root")
    late, measured = trajectory(0, FIRST, "q"), trajectory(1, FIRST, "q", purpose=Purpose.EVALUATE)
    commit_rows(warehouse, FIRST, query("q", FIRST), late, measured)
    commit_rows(warehouse, SECOND, judgement(late.trajectory_id, SECOND, correct=True))
    return warehouse


def test_a_judgement_of_a_later_round_is_shown(warehouse: Warehouse) -> None:
    found = find_trajectory(warehouse, trajectory(0, FIRST, "q").trajectory_id[:8])
    assert found.episode.judgement is not None and found.episode.judgement.round == 2
    assert found.episode.query.query_id == "q" and found.guidance is None


def test_what_is_never_judged_is_shown(warehouse: Warehouse) -> None:
    name = trajectory(1, FIRST, "q").trajectory_id
    assert find_trajectory(warehouse, name).episode.judgement is None


@pytest.mark.parametrize(("start", "says"), [("", "several trajectories"), ("nothing", "no trajectory starts with")])
def test_a_start_that_does_not_name_one_is_one_line(warehouse: Warehouse, start: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        find_trajectory(warehouse, start)
