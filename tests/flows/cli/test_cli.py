import logging
import re
import resource
import signal
import subprocess
import sys
import types
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.flows.command_line import CommandLine
from tests.flows.runs import assert_same, run_stages, small_config, tiny_config
from trajmill.flows.cli.app import STOPPED, run, show_own_warnings
from trajmill.flows.cli.loop import STAGE_COMMANDS
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.generate import generate
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.tables.registry import TABLES
from trajmill.stages.queries.base import NewQueries
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.releases import release_names, verify_release

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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("evolv", "No such command 'evolv'. Did you mean 'evolve'?"),
        ("evolve --rounds", "No such option: --rounds;"),
        ("show", "Missing argument 'trajectory';"),
        ("sql x --format xml", "--format: 'xml' is not one of 'table', 'csv', 'json';"),
        ("evolve --workers 0", "--workers should be at least 1;"),
        ("walk --queries some", "--queries should be a whole number;"),
    ],
)
def test_wrong_usage_gives_one_error_line_and_exit_status_2(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr().err == f"{said} --help explains the command\n"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"trajmill {version('trajmill')}\n"


def test_a_walk_in_which_everything_failed_is_1(monkeypatch: pytest.MonkeyPatch, command: CommandLine) -> None:
    walked = types.SimpleNamespace(table="needs [web]", report_path=Path("report.html"), all_failed=True)
    module = types.SimpleNamespace(walk=lambda config, queries, source: walked)
    monkeypatch.setitem(sys.modules, "trajmill.flows.walk", module)
    assert command.refused("walk") == "every walk failed; the table and the report say why\n"
    walked.all_failed = False
    assert command.said("walk").startswith("needs [web]\n")


def test_bad_input_is_one_error_line_and_a_traceback_when_asked_for(command: CommandLine) -> None:
    Path("wrong.toml").write_text("[run]\nseeds = 3\n")
    refused = command.refused("evolve", "--config", "wrong.toml")
    assert refused == "wrong.toml:2: unknown key run.seeds; did you mean run.seed?\n"
    assert command.refused("walk", "--source", "atom").startswith("there is no source 'atom'; did you mean atomic?")
    said = command.failed("evolve", "--config", "missing.toml", "--traceback")
    assert said.startswith("Traceback (most recent call last):")


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

def run(arguments, ends_in_time):
    atexit.register(print, "at its end")
    threading.Thread(target=lambda: (time.sleep(0.2), print("in a thread"))).start()
    return int(arguments[0])

cli.run = run
cli.main()
"""


def test_a_command_ends_with_its_code_once_its_threads_and_handlers_are_done() -> None:
    ended = subprocess.run([sys.executable, "-c", COMMAND, "3"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (3, "")
    assert ended.stdout.split("\n") == ["in a thread", "at its end", ""]


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


DISK_FULL = re.compile(r"\Adisk full while writing [^\n]+: nothing was lost; free some space and run the same [^\n]+\Z")


def test_a_run_without_a_query_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajmill.flows.tasks.generate.new_queries", lambda context: NewQueries(()))
    with pytest.raises(TrajmillError, match=r"\Ano query to learn on could be made[^\n]+\Z"):
        generate(RoundContext.of(small_config(tmp_path)))


def test_a_disk_that_is_full_again_and_again_costs_nothing(tiny_run: Warehouse, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The processes of workers would not have this limit.
    config = tiny_config(tmp_path, workers=1)
    room, messages = 10_000, []
    while True:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            run_stages(config)
            break
        except TrajmillError as error:
            messages.append(str(error))
            room *= 4
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(messages) >= 3
    assert [line for line in messages if not DISK_FULL.match(line)] == []
    again = open_warehouse(tmp_path)
    assert_same(again, tiny_run, TABLES)
    (name,) = release_names(again)
    assert verify_release(again, name).files == verify_release(tiny_run, name).files


def test_a_newer_warehouse_is_not_touched(tmp_path: Path, command: CommandLine) -> None:
    (tmp_path / "trajmill-data").mkdir()
    (tmp_path / "trajmill-data/warehouse.json").write_text('{"schema_version": 99}')
    for name in ("evolve", "rollout", "report"):
        assert re.fullmatch(r"[^\n]+warehouse.json:1: [^\n]+ 99, [^\n]+\n", command.refused(name))
    assert [path.name for path in (tmp_path / "trajmill-data").iterdir()] == ["warehouse.json"]
