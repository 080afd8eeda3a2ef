import io
from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.built_once import built_once, copy_of
from tests.flows.command_line import CommandLine
from tests.flows.runs import changed, small_config
from trajmill.flows.configuration.config import Config
from trajmill.flows.deriving import Attempted, derive_in_round, derive_kind, lifts_by_task
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.release import release_again
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.failure import Refusal
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.derive.kind_spec import GuidanceLift
from trajmill.stages.derive.planning.manual import MANUAL, MANUAL_HELPED
from trajmill.stages.derive.spec import GroundingSpec
from trajmill.stages.export.exporter import SFT_FILE, SftExporter
from trajmill.stages.export.release import check_release, released_rows
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.releases import newest_release, read_release, release_names, verify_release
from trajmill.warehouse.screens import WarehouseScreens

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(small_copy: Warehouse) -> Config:
    """The configuration of a small run whose warehouse may be written to."""
    return small_config(small_copy.root)


@pytest.fixture(scope="session")
def derived_run(small_run: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A run whose newest round was released again with two derived kinds; not to be written to."""

    def build(folder: Path) -> None:
        # Other sorts of instructions would make 2,000 rows more.
        few = {"grounding": GroundingSpec(instructions=("functional",))}
        config = changed(small_config(copy_of(small_run.root, folder / "root")), derive=few)
        for kind in ("step", "grounding", "planning", "forks"):
            derive_kind(config, kind)
        derive_in_round(RoundContext.of(config, 2), "rft")
        release_again(config)

    return small_config(built_once(tmp_path_factory, "derived-run", build) / "root")


def derived(config: Config) -> list[Example]:
    rows = read_rows(open_warehouse(config.run.root), Example, run_id=config.run_id)
    return [row for row in rows if row.kind != "end_to_end"]


def test_a_kind_is_derived_once_from_each_trajectory_though_it_was_killed(
    copied: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("trajmill.flows.stage.commit_stage", Mock(side_effect=KeyboardInterrupt))
        derive_kind(copied, "step")
    assert derived(copied) == []
    made = derive_kind(copied, "step")
    rows = derived(copied)
    assert made.examples == len(rows) == len({row.example_id for row in rows}) > 0
    assert {row.round for row in rows} == {1, 2}
    refusals = read_rows(open_warehouse(copied.run.root), Refusal, run_id=copied.run_id)
    assert sum(row.count for row in refusals) == sum(made.refused.values()) > 0
    again = derive_kind(copied, "step")
    assert (again.trajectories, again.examples) == (0, 0)
    assert derived(copied) == rows
    # Other settings derive rows of another version.
    without_failed = copied.derive.step.model_copy(update={"failed": False})
    other = derive_kind(changed(copied, derive={"step": without_failed}), "step")
    assert len({row.made_by for row in derived(copied)}) == 2 and other.refused["judged_incorrect"] > 0


def test_each_screen_is_grounded_once_and_every_image_opens(derived_run: Config) -> None:
    rows = [row for row in derived(derived_run) if row.kind == "grounding"]
    screens = WarehouseScreens(open_warehouse(derived_run.run.root))
    seen = {(row.round, row.source_screens): (row.trajectory_id, row.step_index) for row in rows}
    assert all(seen[row.round, row.source_screens] == (row.trajectory_id, row.step_index) for row in rows)
    assert len({source for _, source in seen}) == len(seen)
    for screen_id in {row.screens[0] for row in rows if row.variant == "dense"}:
        with Image.open(io.BytesIO(screens.image(screen_id))) as image:
            assert image.size == screens.size(screen_id)


def test_each_failed_attempt_is_compared_with_a_success_at_its_query(
    derived_run: Config, tmp_path: Path, command: CommandLine
) -> None:
    warehouse = open_warehouse(derived_run.run.root)
    attempts = {row.trajectory_id: row for row in read_rows(warehouse, Trajectory, run_id=derived_run.run_id)}
    correct = {row.trajectory_id: row.correct for row in read_rows(warehouse, Judgement, run_id=derived_run.run_id)}
    rows = [row for row in derived(derived_run) if row.kind == "forks"]
    for row in rows:
        failed, success = (attempts[name] for name in row.source_trajectories or ())
        assert (failed.query_id, failed.round) == (success.query_id, success.round)
        assert (correct[failed.trajectory_id], correct[success.trajectory_id]) == (False, True)
    refused = [row for row in read_rows(warehouse, Refusal, run_id=derived_run.run_id) if row.kind == "forks"]
    compared = {row.trajectory_id for row in rows} | {row.trajectory_id for row in refused}
    failures = {name for name, row in attempts.items() if row.purpose == Purpose.TRAIN and correct.get(name) is False}
    assert rows and refused and compared == failures
    export = ("export", "--root", warehouse.root, "--format", "dpo", "--family", "gui-owl-1.5", "--out")
    command.said(*export, tmp_path / "out", "--kind", "forks")
    written = [row for path in (tmp_path / "out" / "data").iterdir() for row in pq.read_table(path).to_pylist()]
    assert {row["example_id"] for row in written} <= {row.example_id for row in rows} and written
    assert all(row["better"] != row["worse"] for row in written)
    command.said(*export[:-2], "qwen3-vl", "--out", tmp_path / "orders", "--kind", "forks")
    said = str([pq.read_table(path).to_pylist() for path in (tmp_path / "orders" / "data").iterdir()])
    assert "Tap '" in said and "Tap the ." not in said
    assert "has no rejected reply: dpo takes --kind forks" in command.refused(*export, tmp_path / "steps")


def test_only_queries_that_were_attempted_in_both_ways_are_compared() -> None:
    attempts = [
        Attempted("a", "q0", "train", 3, 0.0),
        Attempted("b", "q0", "train", 3, 1.0),
        Attempted("c", "q0", "guided", 3, 1.0),
        Attempted("d", "q1", "guided", 3, 0.0),
        Attempted("e", "q2", "train", 3, 0.0),
        Attempted("f", "q2", "guided", 3, 1.0),
        Attempted("g", "q2", "guided", 3, None),
        Attempted("h", "q3", "train", 3, 1.0),
        Attempted("i", "q3", "evaluate", 3, 1.0),
    ]
    tasks = {one.trajectory_id: "rides" if one.query_id == "q3" else "bites" for one in attempts}
    assert lifts_by_task(attempts, tasks) == {"bites": GuidanceLift(without=0.25, guided=1.0)}


def test_the_policy_tries_each_manual_with_and_without_it(copied: Config) -> None:
    config = changed(copied, derive={"planning": copied.derive.planning.model_copy(update={"trials": 2})})
    made = derive_kind(config, "planning")
    warehouse = open_warehouse(config.run.root)
    trials = [row for row in read_rows(warehouse, Trajectory, run_id=config.run_id) if row.purpose is Purpose.TRIAL]
    hints = {row.guidance_id: row for row in read_rows(warehouse, Guidance) if row.source == MANUAL}
    with_manual = [row for row in trials if row.guidance_id is not None]
    assert with_manual and {row.guidance_id for row in with_manual} == set(hints)
    alone = {(row.round, row.query_id, row.seed) for row in trials if row.guidance_id is None}
    assert {(row.round, row.query_id, row.seed) for row in with_manual} == alone
    rows = [row for row in read_rows(warehouse, Example, run_id=config.run_id) if row.kind == "planning"]
    assert len(rows) == made.examples and {row.variant for row in rows} <= {MANUAL_HELPED, "unmeasured"}
    tasks = {query.query_id: query.task for query in read_rows(warehouse, Query, run_id=config.run_id)}
    places = [(row.round, tasks[row.query_id]) for row in rows]
    assert len(set(places)) == len(places), "a task has one manual in a round"
    known = {row.trajectory_id for row in read_rows(warehouse, Trajectory, run_id=config.run_id)}
    assert all(row.source_trajectories and set(row.source_trajectories) <= known for row in rows)
    assert made.trajectories == made.examples + sum(made.refused.values())
    again = derive_kind(config, "planning")
    assert (again.trajectories, again.examples) == (0, 0)


@pytest.fixture
def released(derived_run: Config) -> tuple[Warehouse, str]:
    warehouse = open_warehouse(derived_run.run.root)
    return warehouse, newest_release(warehouse)


def test_a_release_holds_each_kind_in_files_of_its_own(released: tuple[Warehouse, str]) -> None:
    warehouse, name = released
    before = release_names(warehouse)[-2]
    assert read_release(warehouse, name).previous == before
    verify_release(warehouse, name)
    folder = warehouse.release(name)
    ids = ["example_id"]
    earlier = released_rows(warehouse.release(before), SFT_FILE, ids)
    assert released_rows(folder, SFT_FILE, ids) == earlier, "what the policy is trained on does not change"
    stored = read_rows(warehouse, Example)
    for kind in ("step", "grounding", "planning", "rft"):
        rows = released_rows(
            folder / kind, SftExporter(derived_kind=kind).file, ["example_id", "kind", "variant"]
        ).to_pylist()
        of_kind = {row.example_id: row for row in stored if row.kind == kind}
        assert of_kind and {row["example_id"] for row in rows} <= of_kind.keys()
        assert all(row["variant"] == of_kind[row["example_id"]].variant for row in rows)
    shards = {path.parent.parent for path in warehouse.shards(stored[0].run_id).glob("*/trl/grounding.parquet")}
    for shard in shards:
        assert check_release(shard, [SftExporter(derived_kind="grounding")], {}).problems == ()


def test_a_kind_is_exported_for_a_trainer(
    released: tuple[Warehouse, str], tmp_path: Path, command: CommandLine
) -> None:
    warehouse, name = released
    export = ("export", "--root", warehouse.root, "--release", name, "--family", "qwen3-vl", "--format", "trl")
    command.said(*export, "--kind", "grounding", "--out", tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "data").to_pylist()
    assert rows and all(max(map(int, _coordinates(row))) <= 1000 for row in rows)
    command.said(*export[:-1], "grpo", "--kind", "grounding", "--out", tmp_path / "prompts")
    assert "has no kind 'reasoning'; it has: " in command.refused(
        *export, "--kind", "reasoning", "--out", tmp_path / "no"
    )


def _coordinates(row: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[str]:
    said = "".join(block["text"] or "" for block in row["completion"][0]["content"])
    return said.split('"coordinate": [')[1].split("]")[0].split(",")
