from __future__ import annotations

import csv
import errno
import json
import logging
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from PIL import Image

from tests.flows.synthetic_run import HOSTILE, STEPS
from trajmill.flows.cli.app import INTERRUPTED, STOPPED, give_memory_back, run, show_own_warnings
from trajmill.flows.cli.loop import STAGE_COMMANDS
from trajmill.flows.configuration.config import Config
from trajmill.flows.interrupt import asked_to_stop
from trajmill.flows.progress import progress
from trajmill.flows.stage import StageReport
from trajmill.schemas.tables.round_summary import StageCount
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow

COMMANDS = (
    *STAGE_COMMANDS,
    *("evolve", "walk", "pathways", "judge", "calibrate", "serve", "sql", "report", "show", "apps", "config"),
    *("status", "doctor", "derive"),
)

HEAVY = {"torch", "apache_beam", "prefect", "duckdb", "pyarrow", "pydantic", "transformers", "networkx", "PIL"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def stand_in(monkeypatch: pytest.MonkeyPatch, module: str, **names: object) -> None:
    made = types.ModuleType(module)
    for name, value in names.items():
        setattr(made, name, value)
    monkeypatch.setitem(sys.modules, module, made)


def test_help_does_not_load_the_engines() -> None:
    loaded = f"sys.exit(sorted({HEAVY!r} & set(sys.modules)) or 0)"
    code = f"import sys; from trajmill.flows.cli.app import run; run(['--help']); {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f"\n  {command} " in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, "apps check", "apps build", "apps serve"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert command == "apps" or "Example: " in shown
    assert f"trajmill {command}" in shown


@pytest.mark.parametrize("arguments", [["evolv"], ["evolve", "--rounds"], ["show"], ["sql", "x", "--format", "xml"]])
def test_wrong_usage_gives_exit_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"trajmill {version('trajmill')}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_TRAJMILL_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "trajmill evo")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("COMP_WORDS", "trajmill evo")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run([]) == 0
    assert "evolve" in capsys.readouterr().out


@pytest.mark.parametrize(("all_failed", "code"), [(True, 1), (False, 0)])
def test_a_walk_in_which_everything_failed_is_1(
    all_failed: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    walked = types.SimpleNamespace(table="0 of 2 done", report_path=Path("report.html"), all_failed=all_failed)
    stand_in(monkeypatch, "trajmill.flows.walk", walk=lambda config, queries, source: walked)
    assert run(["walk"]) == code
    shown = capsys.readouterr()
    assert "0 of 2 done" in shown.out
    assert shown.err == ("every walk failed; the table and the report say why\n" if all_failed else "")


def test_bad_input_gives_exit_status_1_and_one_error_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.toml").write_text("[run]\nseeds = 3\n")
    assert run(["evolve", "--config", "wrong.toml"]) == 1
    shown = capsys.readouterr()
    assert shown.err == "wrong.toml:2: unknown key run.seeds; did you mean run.seed?\n"
    assert shown.out == ""


def test_traceback_is_shown_when_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evolve", "--config", "missing.toml", "--traceback"]) == 1
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):")


def fail(error: BaseException) -> None:
    raise error


NOT_ALLOWED = PermissionError(errno.EACCES, "Permission denied", "/there/file")


@pytest.mark.parametrize(
    ("work", "code", "line"),
    [
        (
            lambda config: fail(ZeroDivisionError("by nothing")),
            1,
            "unexpected ZeroDivisionError: by nothing; --traceback shows where",
        ),
        (
            lambda config: fail(NOT_ALLOWED),
            1,
            "/there/file cannot be written (Permission denied): nothing was lost; name a folder that you can write to",
        ),
        (lambda config: fail(KeyboardInterrupt()), INTERRUPTED, f"\n{STOPPED}"),
        (lambda config: signal.raise_signal(signal.SIGTERM), 128 + signal.SIGTERM, f"\n{STOPPED}"),
    ],
)
def test_what_ends_a_command_is_one_line_and_an_exit_status(
    work: Callable[[Config], None],
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stand_in(monkeypatch, "trajmill.flows.evolve", evolve=work)
    assert run(["evolve"]) == code
    assert capsys.readouterr().err == f"{line}\n"


def test_an_error_that_ctrl_c_caused_in_an_engine_is_reported_as_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worth_retrying: list[bool] = []

    def swallowed(config: Config) -> None:
        worth_retrying.append(not asked_to_stop())
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            worth_retrying.append(not asked_to_stop())
            raise RuntimeError("a worker failed") from None

    handler = signal.getsignal(signal.SIGINT)
    stand_in(monkeypatch, "trajmill.flows.evolve", evolve=swallowed)
    assert run(["evolve"]) == INTERRUPTED
    assert capsys.readouterr().err.strip() == STOPPED
    assert worth_retrying == [True, False]
    assert signal.getsignal(signal.SIGINT) is handler
    assert not asked_to_stop()


@pytest.mark.parametrize("stage", STAGE_COMMANDS)
def test_a_stage_alone_is_watched_and_reported(
    stage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_stage(name: str, config: Config) -> StageReport:
        with progress().stage(4, name, 30) as advance:
            advance(30)
        return StageReport(StageCount(stage=name, rows_in=1600, rows_out=30, seconds=2.0, cost=0.0), {})

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    stand_in(monkeypatch, "trajmill.flows.round", run_stage=run_stage)
    assert run([stage]) == 0
    watched, reported = capsys.readouterr().out.splitlines()
    assert watched.split()[:5] == ["round", "4", stage, "30", "rows"]
    assert reported == f"{stage}: 1,600 in, 30 out, 2.0 s"


def test_sql_prints_plain_data_and_a_wrong_query_is_one_line(
    run_warehouse: Warehouse, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--root", str(run_warehouse.root)]
    query = "SELECT query_id, instruction FROM queries ORDER BY 1"
    assert run(["sql", query, "--format", "csv", *root]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert rows[0] == {"query_id": "query-0", "instruction": HOSTILE}
    assert run(["sql", query, "-f", "json", *root]) == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert run(["sql", "DROP TABLE rounds", *root]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert run(["sql", "SELECT 1", "--root", str(folder)]) == 1
    assert str(folder) in capsys.readouterr().err
    Path("trajmill.toml").write_text(f"[run]\nroot = {json.dumps(str(run_warehouse.root))}\n")
    assert run(["sql", "SELECT count(*) AS n FROM rounds", "-f", "csv"]) == 0
    assert capsys.readouterr().out == "n\n2\n"


def test_show_prints_steps_and_verdicts_and_writes_pictures(
    run_warehouse: Warehouse, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = read_rows(run_warehouse, Trajectory)
    wanted = next(row for row in rows if row.query_id == "query-0" and row.round == 2)
    arguments = ["show", wanted.trajectory_id[:10], "--images", "pictures", "--root", str(run_warehouse.root)]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(HOSTILE)
    assert shown.count("conclusion  I pressed something") == STEPS
    for said in (
        "multimodal: correct; It shows",
        "critic      HARMFUL",
        "judged correct by consensus(text,multimodal)",
    ):
        assert said in shown
    pictures = sorted((folder / "pictures").iterdir())
    assert [picture.name for picture in pictures[:1] + pictures[-2:]] == [
        "01-click.png",
        f"{STEPS:02d}-terminate.png",
        f"{STEPS + 1:02d}-end.png",
    ]
    assert Image.open(pictures[0]).size == (720, 1280)


@pytest.mark.parametrize(
    ("start", "told"), [("zz\x1b[31m", "no trajectory starts with 'zz [31m'"), ("", "several trajectories start with")]
)
def test_show_wants_one_trajectory(
    run_warehouse: Warehouse, start: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", start, "--root", str(run_warehouse.root)]) == 1
    assert told in capsys.readouterr().err


def test_config_prints_what_is_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trajmill.toml").write_text("[run]\nrounds = 3\n")
    assert run(["config"]) == 0
    assert "\nrounds = 3\n" in capsys.readouterr().out


def test_what_the_program_warns_of_is_a_line_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger("trajmill"), "handlers", [])
    show_own_warnings()
    logging.getLogger("trajmill.pipelines.executors.beam").warning("stage %s: it is started again", "rollout")
    logging.getLogger("trajmill.pipelines.executors.beam").info("nobody asked for this")
    logging.getLogger("a.library").warning("nor for this")
    assert capsys.readouterr().err == "stage rollout: it is started again\n"


@pytest.mark.parametrize(
    ("platform", "chosen", "pool"),
    [("linux", {}, "jemalloc"), ("linux", {"ARROW_DEFAULT_MEMORY_POOL": "system"}, "system"), ("darwin", {}, None)],
)
def test_arrow_gives_memory_back_unless_the_user_chose_an_allocator(
    platform: str, chosen: dict[str, str], pool: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = dict(chosen)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(os, "environ", environment)
    give_memory_back()
    assert environment.get("ARROW_DEFAULT_MEMORY_POOL") == pool
