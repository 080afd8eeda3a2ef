"""Atomic operations asked for in a configuration: made and walked on a real desktop, or refused in one line."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.flows.command_line import CommandLine
from trajmill.flows.cli.app import run
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows, read_table

CONFIG = """\
[run]
root = "warehouse"
[environment]
kind = "desktop"
[queries]
heldout_app_names = ["pcmanfm"]
[rollout]
concurrency = 2
[atomic]
train = 1
heldout_slots = 1
programs = ["mousepad", "pcmanfm"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "trajmill.toml").write_text(CONFIG)
    return tmp_path


@pytest.mark.desktop
def test_operations_are_made_beside_a_runs_tasks_and_walked_and_held_out_programs_are_not_learnt_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["walk", "--source", "atomic", "--queries", "2"]
    if run(command) or "2 of 2 done" not in capsys.readouterr().out:
        # A program that gets no processor misses an event; a wrong path fails each time.
        shutil.rmtree(folder / "warehouse")
        assert run(command) == 0
        assert "2 of 2 done" in (shown := capsys.readouterr().out), shown
    warehouse = open_warehouse(folder / "warehouse")
    assert read_table(warehouse, "trajectories", ["reward"])["reward"].to_pylist() == [1.0] * 2
    assert read_rows(warehouse, Failure) == []
    queries = read_rows(warehouse, Query)
    assert {query.validation for query in queries} == {"passed"}
    made = [query for query in queries if query.source is Source.ATOMIC]
    assert len(queries) - len(made) == 16
    assert Counter((query.apps[0], query.split) for query in made) == {
        ("mousepad", Split.TRAIN): 2,
        ("mousepad", Split.HELDOUT_SLOTS): 2,
        ("pcmanfm", Split.HELDOUT_APPS): 4,
    }


@pytest.mark.parametrize(
    ("arguments", "change", "said"),
    [
        ([], ('"pcmanfm"]\n', '"gimp"]\n'), "atomic.programs should be 'libreoffice-calc', 'libreoffice-writer', "),
        ([], ("train = 1", "train = -1"), "toml:10: atomic.train should be greater than or equal to 0, not -1"),
        ([], ('"desktop"', '"miniwob"'), 'toml:9: atomic: its programs are those of environment.kind = "desktop"'),
        (["--source", "atom"], ("", ""), "there is no source 'atom'; did you mean atomic?"),
    ],
)
def test_bad_input_gives_one_error_line(
    arguments: list[str], change: tuple[str, str], said: str, command: CommandLine
) -> None:
    place = CONFIG.rindex(change[0])
    Path("trajmill.toml").write_text(CONFIG[:place] + CONFIG[place:].replace(*change) if change[0] else CONFIG)
    assert said in command.refused("walk", *arguments)
    assert not Path("warehouse").exists()
