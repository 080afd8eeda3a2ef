from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.records import record
from tests.stages.derive.rl_rows import EpisodeBatch, rl_rows_of
from tests.stages.derive.samples import COMMON, ORIGIN, PHONE, TAP, episode, failure, query, step, success
from tests.warehouse.samples import commit_rows
from trajmill.pipelines.derive import DeriveRLSteps, RLRound, plan_round
from trajmill.pipelines.export import Exporting, compared_trajectories, rl_steps
from trajmill.pipelines.fan_out import divide
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import RLStep
from trajmill.schemas.tables.registry import arrow_schema, rows_from_arrow
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.derive.rl_plan import moments
from trajmill.stages.derive.spec import RLSpec
from trajmill.stages.export.formats.steps import RLStepExample
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse
from trajmill.warehouse.read import read_rows, read_shards
from trajmill.warehouse.releases import Release
from trajmill.warehouse.screens import WarehouseScreens

pytestmark = pytest.mark.slow

A, B, C = query("a"), query("b"), query("c")
RUN, ROUND = ORIGIN.run_id, 3
BATCH = RLSpec(normalise="batch", keep_without_spread=True)
EARLIER = [success(2, "old", A), failure(2, "old2", B)]
ATTEMPTS = [
    *(failure(3, f"a{number}", A) for number in range(3)),
    *(success(2, "b1", B), failure(4, "b2", B), episode([step(0, TAP), step(1, None)], name="b3", asked=B)),
    *(success(2, "c1", C), success(2, "c2", C), episode([step(0, TAP)], name="c3", asked=C, correct=None)),
]


@pytest.mark.parametrize("spec", [RLSpec(), BATCH])
def test_rows_are_the_same_in_one_shard_and_in_several(tmp_path: Path, spec: RLSpec) -> None:
    warehouse = stored(tmp_path, {1: EARLIER, ROUND: ATTEMPTS})
    attempts = [in_round(one, ROUND) for one in ATTEMPTS]
    [old, _] = EARLIER
    batch = EpisodeBatch(attempts, {"a": old}, [moments([1.0, 0.0])] if spec is BATCH else [])
    origin = Origin(round=ROUND, run_id=RUN, code_version="test")
    expected = rl_rows_of(batch, spec, origin=origin)
    plan = plan_round(warehouse, compared(attempts), spec, seed=0)
    assert plan.dropped == expected.dropped
    for shards in (1, 3):
        at = StageRun(RUN, ROUND, f"derive-{shards}")
        job = DeriveRLSteps(warehouse, at, origin, spec.step_weight)
        parts = [job(str(number), part) for number, part in enumerate(divide(plan.trajectories, shards))]
        files = [file for part in parts for file in part.files["rl_steps"]]
        assert len(files) == shards
        rows = read_shards(warehouse, "rl_steps", files, arrow_schema("rl_steps").names)
        assert list(rows_from_arrow(RLStep, rows)) == list(expected.rows)


def test_an_attempt_that_was_judged_a_round_later_is_compared_with_one_that_was_judged_now(tmp_path: Path) -> None:
    waited, late = success(2, "b1", B), failure(4, "b2", B)
    warehouse = stored(tmp_path, {1: [one.model_copy(update={"judgement": None}) for one in (waited, late)]})
    for number, one in ((2, waited), (3, late)):
        commit_rows(warehouse, StageRun(RUN, number, "judge"), *judgements_of([in_round(one, number)]))
    found = plan_round(warehouse, compared([waited, late])._replace(rounds=(1, ROUND)), RLSpec(), seed=0)
    assert {one.group_size for one in found.trajectories} == {2}
    assert not found.dropped


def stored(tmp_path: Path, episodes: Mapping[int, Sequence[Episode]]) -> Warehouse:
    warehouse = create_warehouse(tmp_path / "data")
    screens = [record(Screen, screen_id=f"s{number}", **PHONE._asdict(), **COMMON) for number in range(9)]
    commit_rows(warehouse, StageRun(RUN, 1, "generate"), A, B, C, *screens)
    for number, found in episodes.items():
        made = [in_round(one, number) for one in found]
        rows = [row for one in made for row in (one.trajectory, *one.steps)]
        commit_rows(warehouse, StageRun(RUN, number, "rollout"), *rows, *judgements_of(made))
    return warehouse


def judgements_of(episodes: Sequence[Episode]) -> list[Judgement]:
    return [one.judgement for one in episodes if one.judgement]


def compared(attempts: Sequence[Episode]) -> RLRound:
    [old, _] = EARLIER
    name = old.trajectory.trajectory_id
    ids = [one.trajectory.trajectory_id for one in attempts]
    return RLRound(RUN, ROUND, ids, (ROUND,), {"a": name}, {name: 1}, frozenset(), frozenset())


def in_round(one: Episode, number: int) -> Episode:
    changed = {"round": number}
    return one.model_copy(
        update={
            "trajectory": one.trajectory.model_copy(update=changed),
            "steps": tuple(step.model_copy(update=changed) for step in one.steps),
            "judgement": one.judgement and one.judgement.model_copy(update=changed),
        }
    )


@pytest.fixture
def compared_round(tmp_path: Path) -> Warehouse:
    warehouse = stored(tmp_path, {1: EARLIER, ROUND: ATTEMPTS})
    origin = Origin(round=ROUND, run_id=RUN, code_version="test")
    planned = plan_round(warehouse, compared(ATTEMPTS), RLSpec(keep_without_spread=True), seed=0).trajectories
    at = StageRun(RUN, ROUND, "derive")
    job = DeriveRLSteps(warehouse, at, origin, "inverse_length")
    by_id = sorted(planned, key=lambda one: one.trajectory_id)
    shards = [job(str(number), sorted(part, key=planned.index)) for number, part in enumerate(divide(by_id, 3))]
    commit_stage(warehouse, at, {"rl_steps": [file for shard in shards for file in shard.files["rl_steps"]]})
    return warehouse


@pytest.mark.parametrize(("trajectories", "rows"), [(1000, 1000), (1, 1000), (2, 3)])
def test_groups_stay_together_though_their_attempts_are_read_apart(
    trajectories: int, rows: int, compared_round: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajmill.pipelines.export.TRAJECTORIES_AT_ONCE", trajectories)
    monkeypatch.setattr("trajmill.warehouse.read.rows_per_group", lambda table: rows)
    folder = tmp_path / "temporary"
    folder.mkdir()
    release = record(Release, run_id=RUN, round=ROUND, tables={})
    exporting = Exporting(compared_round, release, ANY, WarehouseScreens(compared_round), folder)
    made = list(rl_steps(exporting, compared_trajectories(compared_round, release)))
    assert list(folder.iterdir()) == []
    stored_rows = read_rows(compared_round, RLStep)
    assert {row.group for row in stored_rows} == {"a", "b", "c"}
    assert any(row.replayed for row in stored_rows)
    wanted = sorted((row.group, row.trajectory_id, row.step_index, row.rl_step_id) for row in stored_rows)
    assert wanted != [(row.group, row.trajectory_id, row.step_index, row.rl_step_id) for row in stored_rows]
    assert [
        (one.comparison.group, one.lineage.trajectory_id, one.lineage.step_index, one.comparison.rl_step_id)
        for one in made
        if isinstance(one, RLStepExample)
    ] == wanted
