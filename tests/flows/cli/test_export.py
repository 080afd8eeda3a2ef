"""`trajmill export`: from a run's release to a trainer's folder, whole or not at all."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.stages.export.formats.folders import read
from trajmill.flows.cli.app import run
from trajmill.schemas.actions import action_from_json
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.formats.base import FORMATS
from trajmill.stages.export.formats.steps import same_action
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import newest_release
from trajmill.warehouse.screens import WarehouseScreens

pytestmark = pytest.mark.slow


def export(warehouse: Warehouse, out: Path, *arguments: str) -> int:
    return run(["export", "--root", str(warehouse.root), "--out", str(out), *arguments])


@pytest.mark.parametrize("kind", FORMATS.kinds())
def test_a_run_is_exported_as_it_was_stored(
    kind: str, small_run: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert export(small_run, out, "--format", kind, "--family", "qwen2.5-vl") == 0
    rows, screens, family = read(out), WarehouseScreens(small_run), family_named("qwen2.5-vl")
    assert capsys.readouterr().out.startswith(f"{newest_release(small_run)}: {len(rows):,} rows of ")
    names = ["trajectory_id", "index", "action", "screen_before"]
    steps = read_table(small_run, "steps", names).to_pylist()
    stored = {(step["trajectory_id"], step["index"]): step for step in steps}
    guidance = read_table(small_run, "trajectories", ["trajectory_id", "guidance_id", "model_version"]).to_pylist()
    attempts = {row["trajectory_id"]: row for row in guidance}
    assert rows
    for row in rows:
        own = stored[row.columns["trajectory_id"], row.columns["step_index"]]
        attempt = attempts[row.columns["trajectory_id"]]
        assert row.columns["guided"] == (attempt["guidance_id"] is not None)
        assert row.columns["policy_version"] == attempt["model_version"]
        assert row.images == (screens.image(own["screen_before"]),) and row.columns["action"] == own["action"]
        assert sum(text.count("<image>") for _, text in row.messages) == 1
        if row.reply is not None:
            frame = family.frame(Size(*row.columns["image_sizes"][0]))
            said = family.dialect(Platform(row.columns["platform"])).parse(row.reply, frame)
            assert isinstance(said, Reply) and same_action(said.action, action_from_json(own["action"]), frame)


def test_a_release_without_groups_is_no_rl_data(
    small_run: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(small_run.root, tmp_path / "data")
    warehouse = open_warehouse(tmp_path / "data")
    shutil.rmtree(warehouse.table("rl_steps"))
    assert export(warehouse, tmp_path / "out", "--format", "grpo", "--family", "gui-owl") == 1
    said = capsys.readouterr().err
    assert "it is no RL data" in said and "rollout.group_size of 2 or more" in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--format", "tlr", "--family", "qwen2.5-vl"), "did you mean trl?"),
        (("--format", "trl", "--family", "qwen2.5vl"), "did you mean qwen2.5-vl?"),
        (("--format", "trl", "--family", "gui-owl", "--release", "no-such"), "release no-such: there is none in"),
        (("--format", "trl", "--family", "gui-owl", "--max-pixels", "1000"), "no step can be written for gui-owl"),
    ],
)
def test_a_wrong_request_gives_one_error_line_and_leaves_nothing(
    arguments: tuple[str, ...], line: str, small_run: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(small_run, tmp_path / "out", *arguments) == 1
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone(
    small_run: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert export(small_run, tmp_path, "--format", "trl", "--family", "gui-owl") == 1
    assert "is no empty folder; name a new one" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_full_disk_leaves_nothing_half_written(
    small_run: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bytes = Path.write_bytes
    written: list[Path] = []

    def until_full(path: Path, data: bytes) -> int:
        written.append(path)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", until_full)
    out = tmp_path / "out"
    assert export(small_run, out, "--format", "swift", "--family", "gui-owl") == 1
    assert f"disk full while writing {out}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    # What a killed export has left is cleared away.
    left = tmp_path / ".out.unfinished"
    left.mkdir()
    (left / "half").write_text("half")
    assert export(small_run, out, "--format", "swift", "--family", "gui-owl") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and not (out / "half").exists()
