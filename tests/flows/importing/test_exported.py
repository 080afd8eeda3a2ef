"""What `trajmill export` has written is read again as the trajectories that it came from."""

from collections import defaultdict
from pathlib import Path

import pytest

from trajmill.flows.cli.app import run
from trajmill.schemas.record import Origin
from trajmill.stages.importing.base import Recording, layout_spec
from trajmill.stages.importing.rows import rows_of
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["trl", "verl-sft", "grpo", "verl"])
def test_an_export_is_read_again(kind: str, small_run: Warehouse, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = ["export", "--root", str(small_run.root), "--out", str(out), "--format", kind, "--family", "qwen2.5-vl"]
    assert run(said) == 0
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
