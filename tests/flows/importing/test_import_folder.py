"""Imports become rows like any other: judged, learned from, never attempted; what goes out as ATIF comes back."""

import json
import re
from collections import defaultdict
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.flows.command_line import CommandLine
from tests.flows.runs import changed, do, killed_before_marker, opinion, up_to
from tests.flows.tasks.test_judge import served
from tests.stages.export.formats.folders import read
from tests.stages.importing import samples
from tests.stages.importing.atif_samples import harbor
from tests.stages.models.fault_server import Fault, running_server
from trajmill.flows.cli.app import run
from trajmill.flows.configuration.config import Config
from trajmill.flows.importing.import_folder import import_folder
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.release import DERIVE
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.importing.base import Recording, layout_spec
from trajmill.stages.importing.rows import rows_of
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows, read_table
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.store.base import BucketUrl

pytestmark = pytest.mark.slow


_DEAD = "http://127.0.0.1:9/v1"


def seeing(root: Path, url: str) -> Config:
    """A judge that needs no trees, which this layout does not have, and a small run."""
    judge = {"channels": ("multimodal",), "votes": 1, "quorum": 1, "resolutions": (0.25,)}
    small = changed(served(root / "data", url, episodes=2), queries={"train": 2}, train={"min_updates": 1})
    return changed(small, judge=judge, guidance={"enabled": False})


def generated(root: Path, url: str) -> tuple[Config, RoundContext]:
    config = seeing(root, url)
    context = RoundContext.of(config)
    do(GENERATE, context)
    return config, context


def test_a_folder_is_imported_once_judged_and_never_attempted(tmp_path: Path) -> None:
    samples.agentnet(tmp_path / "net", tasks=3)
    with (tmp_path / "net/agentnet.jsonl").open("a") as file:
        file.write("{\n")
    with running_server([Fault.NONE], writes=opinion) as server:
        config, context = generated(tmp_path, server.url)
        held_out = next(query for query in context.queries.values() if query.split is Split.HELDOUT_SLOTS)
        samples.gui_odyssey(tmp_path / "odyssey", "1", held_out.instruction)
        first = import_folder(config, layout_spec("agentnet"), tmp_path / "net")
        again = import_folder(config, layout_spec("agentnet"), tmp_path / "net")
        leaking = import_folder(config, layout_spec("gui-odyssey"), tmp_path / "odyssey")
    assert (first.round, first.trajectories, first.steps, first.judged, first.accepted) == (1, 3, 12, 3, 3)
    assert [bad.name for bad in first.bad] == ["agentnet.jsonl:4"] and first.accepted_since_training == 3
    assert (again.trajectories, again.known, again.judged, again.accepted_since_training) == (0, 3, 0, 3)
    assert leaking.trajectories == 0 and "held-out" in leaking.bad[0].reason
    stored = read_rows(context.warehouse, Trajectory, run_id=context.run_id)
    assert {row.purpose for row in stored} == {Purpose.IMPORTED} and len(stored) == 3
    screens = WarehouseScreens(context.warehouse)
    assert context.read("screens", ["screen_id"]).num_rows == 4
    steps = read_rows(context.warehouse, Step, run_id=context.run_id)
    assert all(screens.size(step.screen_after).width == 300 for step in steps)
    imported = [row for row in read_rows(context.warehouse, Query) if row.made_by.startswith("import.")]
    assert len(imported) == 3 and not {row.query_id for row in imported} & set(context.queries)
    assert len(read_rows(context.warehouse, Failure, run_id=context.run_id)) == 3


def test_what_no_critic_could_judge_is_judged_with_the_next_round_and_learned_from(tmp_path: Path) -> None:
    samples.agentnet(tmp_path / "net", tasks=2)
    with running_server([Fault.INTERNAL] * 100, writes=opinion) as server:
        config, context = generated(tmp_path, server.url)
        report = import_folder(config, layout_spec("agentnet"), tmp_path / "net")
    assert (report.trajectories, report.judged, report.accepted_since_training) == (2, 0, 0)
    with running_server([Fault.NONE], writes=opinion) as server:
        mended = seeing(tmp_path, server.url)
        assert mended.run_id == config.run_id
        for number, last in ((1, PROMOTE), (2, DERIVE)):
            up_to(last, RoundContext(mended, context.warehouse, number))
    imported = {
        row.trajectory_id for row in read_rows(context.warehouse, Trajectory) if row.purpose is Purpose.IMPORTED
    }
    examples = [row for row in read_rows(context.warehouse, Example) if row.trajectory_id in imported]
    assert {row.trajectory_id for row in examples} == imported and {row.round for row in examples} == {2}
    assert all(json.loads(row.action or "")["kind"] for row in examples)


def test_an_import_that_is_killed_loses_nothing_and_brings_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples.agentnet(tmp_path / "net", tasks=2)
    with running_server([Fault.NONE], writes=opinion) as server:
        config, context = generated(tmp_path, server.url)
        with monkeypatch.context() as before, pytest.raises(KeyboardInterrupt):
            before.setattr("trajmill.flows.stage.commit_stage", Mock(side_effect=KeyboardInterrupt))
            import_folder(config, layout_spec("agentnet"), tmp_path / "net")
        assert read_rows(context.warehouse, Trajectory) == []
        for stage in ("import-0000", "judge_import-0000"):
            with monkeypatch.context() as after, pytest.raises(TrajmillError, match="killed"):
                killed_before_marker(after, stage)
                import_folder(config, layout_spec("agentnet"), tmp_path / "net")
        again = import_folder(config, layout_spec("agentnet"), tmp_path / "net")
    assert (again.trajectories, again.known, again.accepted_since_training) == (0, 2, 2)
    steps = [(row.trajectory_id, row.index) for row in read_rows(context.warehouse, Step)]
    judged = [row.trajectory_id for row in read_rows(context.warehouse, Judgement)]
    screens = [row.screen_id for row in read_rows(context.warehouse, Screen)]
    trajectories = [row.trajectory_id for row in read_rows(context.warehouse, Trajectory)]
    assert len(steps) == len(set(steps)) == 8 and len(screens) == len(set(screens)) > 0
    assert sorted(judged) == sorted(trajectories) == sorted(set(trajectories)) and len(trajectories) == 2


def test_an_import_into_a_bucket_brings_its_screens(tmp_path: Path, bucket_url: str) -> None:
    samples.agentnet(tmp_path / "net", tasks=1)
    with running_server([Fault.NONE], writes=opinion) as server:
        there = changed(seeing(tmp_path, server.url), run={"root": BucketUrl(bucket_url)})
        context = RoundContext.of(there)
        do(GENERATE, context)
        assert import_folder(there, layout_spec("agentnet"), tmp_path / "net").steps == 4
    shown = {row.screen_after for row in read_rows(context.warehouse, Step)}
    assert shown <= {row.screen_id for row in read_rows(context.warehouse, Screen)} != set()


def test_a_run_without_queries_says_what_to_do(tmp_path: Path) -> None:
    samples.agentnet(tmp_path / "net")
    with pytest.raises(BadInputError, match=r"is no warehouse .* run `trajmill evolve`"):
        import_folder(served(tmp_path / "data", _DEAD), layout_spec("agentnet"), tmp_path / "net")
    assert not (tmp_path / "data").exists()


_PAGE = Path(__file__).parents[3] / "docs/import.md"


def test_a_trial_of_harbor_becomes_a_training_row_in_five_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = _PAGE.read_text(encoding="utf-8").partition("## A trial of Harbor becomes a training row\n")[2]
    lines = section.partition("```\n")[2].partition("```")[0].splitlines()
    monkeypatch.chdir(tmp_path)
    harbor(tmp_path / "jobs/today", "save__1")
    harbor(tmp_path / "jobs/today", "print__1", 0.0, "Print the file")
    harbor(tmp_path / "jobs/today", "broken__1", 7.0)
    for command in (command for line in lines for command in line.split(" && ")):
        assert command.startswith("trajmill ") and run(command.split()[1:]) == 0, command
        if "import" in command:
            said = capsys.readouterr().out
            assert "left out  today/broken__1/agent/trajectory.json: 7.0 is no reward from 0 to 1" in said
            assert re.search(r"imported  2 trajectories, 8 steps.*\njudged    2, accepted 1;", said)
    assert len(lines) == 5
    rows = [row for row in read(tmp_path / "for_trl") if row.columns["environment"] == "atif"]
    assert [row.columns["step_index"] for row in rows] == [0, 1, 2, 3]
    assert {row.columns["instruction"] for row in rows} == {"Save the file"}
    first = tmp_path / "jobs/today/save__1/agent/screenshot_init.webp"
    assert rows[0].images == (first.read_bytes(),) and '"coordinate": [500, 250]' in str(rows[0].reply)
    stored = read_table(open_warehouse(tmp_path / "trajmill-data"), "failures", ["input_id"])
    assert stored["input_id"].to_pylist() == ["today/broken__1/agent/trajectory.json"]


def test_every_attempt_of_a_release_comes_back_as_the_same_rows(
    small_run: Warehouse, tmp_path: Path, command: CommandLine
) -> None:
    """Byte for byte but for ids, round and versions; of our prompts, those of steps that must not be learned go."""
    out = tmp_path / "out"
    said = command.said("export", "--root", small_run.root, "--format", "atif", "--out", out)
    assert re.search(r": \d+ attempts, ", said)
    stored = {row.trajectory_id: row for row in read_rows(small_run, Trajectory)}
    steps = {(row.trajectory_id, row.index): row for row in read_rows(small_run, Step)}
    layout, equal = layout_spec("atif"), set(Step.model_fields) - {"round", "run_id", "made_by", "code_version"}
    equal -= {"trajectory_id", "screen_before", "screen_after", "policy_version", "guided", "prompt"}
    found = [each.recording for file in layout.checked_lists(out) for each in layout.read(file, out)]
    prompts = 0
    for recording in found:
        assert isinstance(recording, Recording)
        rows = rows_of(recording, "atif", Origin(round=1, run_id="other", code_version="1"))
        own = stored[recording.name.partition("/")[0]]
        assert (rows.trajectory.reward, rows.trajectory.answer) == (own.reward, own.answer)
        assert len(rows.steps) == own.steps
        for step in rows.steps:
            before = steps[own.trajectory_id, step.index]
            assert {name for name in equal if getattr(before, name) != getattr(step, name)} == set()
            prompts += step.prompt == before.prompt
    assert len(found) > 5 and prompts > 0.9 * sum(len(each.steps) for each in found if isinstance(each, Recording))


@pytest.mark.parametrize("kind", ["trl", "verl-sft", "grpo", "verl"])
def test_an_export_is_read_again(kind: str, small_run: Warehouse, tmp_path: Path, command: CommandLine) -> None:
    out = tmp_path / "out"
    command.said("export", "--root", small_run.root, "--out", out, "--format", kind, "--family", "qwen2.5-vl")
    layout = layout_spec("trajmill")
    found = [each.recording for file in layout.checked_lists(out) for each in layout.read(file, out)]
    read = {each.name: each for each in found if isinstance(each, Recording)}
    assert len(read) == len(found) > 3, "the rows of a trajectory follow one another"
    stored: dict[str, list[str]] = defaultdict(list)
    for row in read_table(small_run, "steps", ["trajectory_id", "action"]).to_pylist():
        stored[row["trajectory_id"]].append(row["action"])
    for name, recording in read.items():
        rows = rows_of(recording, "trajmill", Origin(round=1, run_id="other", code_version="1"))
        assert {step.action for step in rows.steps} <= set(stored[name])
        assert rows.trajectory.query_id == rows.query.query_id and rows.query.apps
