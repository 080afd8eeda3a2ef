"""A trial of Harbor becomes a training row as the page says, and a whole run goes out as ATIF and comes back."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.flows.command_line import CommandLine
from tests.stages.export.formats.folders import read
from tests.stages.importing.atif_samples import harbor
from trajmill.flows.cli.app import run
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.trajectory import Step, Trajectory
from trajmill.stages.importing.base import Recording, layout_spec
from trajmill.stages.importing.rows import rows_of
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows, read_table

pytestmark = pytest.mark.slow
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
    assert len(found) > 10 and prompts > 0.9 * sum(len(each.steps) for each in found if isinstance(each, Recording))


@pytest.mark.parametrize("kind", ["trl", "verl-sft", "grpo", "verl"])
def test_an_export_is_read_again(kind: str, small_run: Warehouse, tmp_path: Path, command: CommandLine) -> None:
    out = tmp_path / "out"
    command.said("export", "--root", small_run.root, "--out", out, "--format", kind, "--family", "qwen2.5-vl")
    layout = layout_spec("trajmill")
    found = [each.recording for file in layout.checked_lists(out) for each in layout.read(file, out)]
    read = {each.name: each for each in found if isinstance(each, Recording)}
    assert len(read) == len(found) > 5, "the rows of a trajectory follow one another"
    stored: dict[str, list[str]] = defaultdict(list)
    for row in read_table(small_run, "steps", ["trajectory_id", "action"]).to_pylist():
        stored[row["trajectory_id"]].append(row["action"])
    for name, recording in read.items():
        rows = rows_of(recording, "trajmill", Origin(round=1, run_id="other", code_version="1"))
        assert {step.action for step in rows.steps} <= set(stored[name])
        assert rows.trajectory.query_id == rows.query.query_id and rows.query.apps
