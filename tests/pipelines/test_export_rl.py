"""RL rows of an export: sorted by group, however they are stored and read."""

from __future__ import annotations

import gc
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from tests.pipelines.test_derive_rl import ATTEMPTS, EARLIER, ROUND, RUN, compared, stored
from trajmill.pipelines.derive import DeriveRLSteps, plan_round
from trajmill.pipelines.export import Exporting, compared_trajectories, rl_steps
from trajmill.pipelines.fan_out import divide
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import RLStep
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.stages.derive.spec import RLSpec
from trajmill.stages.export.formats.steps import RLStepExample
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.releases import Release
from trajmill.warehouse.screens import WarehouseScreens

pytestmark = pytest.mark.slow


@pytest.fixture
def compared_round(tmp_path: Path) -> Warehouse:
    """Three groups with a remembered success, in three shards that have attempts of all groups."""
    warehouse = stored(tmp_path, {1: EARLIER, ROUND: ATTEMPTS})
    origin = Origin(round=ROUND, run_id=RUN, code_version="test")
    planned = plan_round(warehouse, compared(ATTEMPTS), RLSpec(keep_without_spread=True), seed=0).trajectories
    at = StageRun(RUN, ROUND, "derive")
    job = DeriveRLSteps(warehouse, at, origin, "inverse_length")
    by_id = sorted(planned, key=lambda one: one.trajectory_id)
    shards = [job(str(number), sorted(part, key=planned.index)) for number, part in enumerate(divide(by_id, 3))]
    commit_stage(warehouse, at, {"rl_steps": [file for shard in shards for file in shard.files["rl_steps"]]})
    return warehouse


def exporting_to(warehouse: Warehouse, folder: Path) -> Exporting:
    release = Release(
        name="measured",
        created_at="",
        code_version="test",
        run_id=RUN,
        round=ROUND,
        schema_version=1,
        tables={},
        files=(),
        previous=None,
    )
    return Exporting(warehouse, release, ANY, WarehouseScreens(warehouse), folder)


def exported(warehouse: Warehouse, folder: Path) -> Sequence[RLStepExample]:
    exporting = exporting_to(warehouse, folder)
    found = list(rl_steps(exporting, compared_trajectories(warehouse, exporting.release)))
    assert list(folder.iterdir()) == []
    return [one for one in found if isinstance(one, RLStepExample)]


@pytest.mark.parametrize(("trajectories", "rows"), [(1000, 1000), (1, 1000), (2, 3)])
def test_groups_stay_together_though_their_attempts_are_read_apart(
    trajectories: int, rows: int, compared_round: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajmill.pipelines.export.TRAJECTORIES_AT_ONCE", trajectories)
    monkeypatch.setattr("trajmill.warehouse.read.rows_per_group", lambda table: rows)
    folder = tmp_path / "temporary"
    folder.mkdir()
    made = exported(compared_round, folder)
    stored_rows = read_rows(compared_round, RLStep)
    assert {row.group for row in stored_rows} == {"a", "b", "c"}
    assert any(row.replayed for row in stored_rows)
    wanted = sorted((row.group, row.trajectory_id, row.step_index, row.rl_step_id) for row in stored_rows)
    assert wanted != [(row.group, row.trajectory_id, row.step_index, row.rl_step_id) for row in stored_rows]
    assert [
        (one.comparison.group, one.lineage.trajectory_id, one.lineage.step_index, one.comparison.rl_step_id)
        for one in made
    ] == wanted


def held() -> int:
    """Trajectories and RL rows that somebody holds."""
    return sum(isinstance(each, Trajectory | RLStep) for each in gc.get_objects())


def test_what_was_read_is_gone_when_the_next_is_read_and_when_all_is_written(
    compared_round: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporting, episodes, counts = exporting_to(compared_round, tmp_path), Exporting.episodes, list[int]()

    def counted(self: Exporting, ids: Collection[str], stored: Mapping[str, int]) -> Mapping[str, Episode]:
        counts.append(held())
        return episodes(self, ids, stored)

    monkeypatch.setattr("trajmill.pipelines.export.TRAJECTORIES_AT_ONCE", 1)
    monkeypatch.setattr(Exporting, "episodes", counted)
    compared_ids, before = compared_trajectories(compared_round, exporting.release), held()
    steps = rl_steps(exporting, compared_ids)
    next(steps)
    assert held() == before
    # Only the rows of one trajectory are there when its episode is read.
    assert len(counts) > 6 and max(counts) - before <= max(len(one.steps) for one in ATTEMPTS)
