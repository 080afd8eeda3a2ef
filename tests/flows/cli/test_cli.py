import logging
import signal
import subprocess
import sys
import types
from importlib.metadata import version
from pathlib import Path

import pytest

from trajmill.flows.cli.app import STOPPED, run, show_own_warnings
from trajmill.flows.cli.loop import STAGE_COMMANDS

pytestmark = pytest.mark.slow

COMMANDS = (
    *STAGE_COMMANDS,
    *("evolve", "walk", "pathways", "judge", "calibrate", "serve", "sql", "report", "show", "apps", "config"),
    *("status", "doctor", "derive", "train"),
)

HEAVY = {"torch", "apache_beam", "prefect", "duckdb", "pyarrow", "pydantic", "transformers", "networkx", "PIL"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


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


@pytest.mark.parametrize(("all_failed", "code"), [(True, 1), (False, 0)])
def test_a_walk_in_which_everything_failed_is_1(
    all_failed: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    walked = types.SimpleNamespace(table="0 of 2 done", report_path=Path("report.html"), all_failed=all_failed)
    module = types.SimpleNamespace(walk=lambda config, queries, source: walked)
    monkeypatch.setitem(sys.modules, "trajmill.flows.walk", module)
    assert run(["walk"]) == code
    shown = capsys.readouterr()
    assert "0 of 2 done" in shown.out
    assert shown.err == ("every walk failed; the table and the report say why\n" if all_failed else "")


def test_bad_input_is_one_error_line_and_a_traceback_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.toml").write_text("[run]\nseeds = 3\n")
    assert run(["evolve", "--config", "wrong.toml"]) == 1
    assert capsys.readouterr() == ("", "wrong.toml:2: unknown key run.seeds; did you mean run.seed?\n")
    assert run(["evolve", "--config", "missing.toml", "--traceback"]) == 1
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):")


def test_warnings_are_lines_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(logging.getLogger("trajmill"), "handlers", [])
    show_own_warnings()
    logging.getLogger("trajmill.pipelines.executors.beam").warning("stage %s: it is started again", "rollout")
    logging.getLogger("trajmill.pipelines.executors.beam").info("nobody asked for this")
    logging.getLogger("a.library").warning("nor for this")
    assert capsys.readouterr().err == "stage rollout: it is started again\n"


COMMAND = """
import atexit, sys, threading, time
from trajmill.flows.cli import app as cli

class Late:
    def __del__(self):
        print("taken apart", flush=True)

late = Late()
late.itself = late

def run(arguments, ends_in_time):
    atexit.register(print, "at its end")
    threading.Thread(target=lambda: (time.sleep(0.2), print("in a thread"))).start()
    print("done")
    return int(arguments[0])

cli.run = run
cli.main()
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_ends_with_its_code_once_its_threads_and_handlers_are_done(code: int) -> None:
    ended = subprocess.run([sys.executable, "-c", COMMAND, str(code)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert ended.stdout.split("\n") == ["done", "in a thread", "at its end", ""]


DEAF = """
import time
from trajmill.flows.cli import app as cli

def waits(**arguments):
    while True:
        try:
            print("waits", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            pass

cli.app, cli._LAST_SECONDS = waits, 0.5
cli.main()
"""


def test_sigterm_ends_a_command_that_waits_for_what_does_not_answer() -> None:
    with subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None and command.stderr is not None
        for _ in range(2):
            assert command.stdout.readline() == b"waits\n"
            command.send_signal(signal.SIGTERM)
        assert command.wait() == 128 + signal.SIGTERM
        assert command.stderr.read().decode() == f"\n{STOPPED}\n"
