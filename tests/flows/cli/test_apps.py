"""The commands of the apps of the simulator, and those that check files of tasks."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.flows.command_line import CommandLine
from tests.stages.environments.simulated.worlds import PAPER


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("paper.yaml")
    path.write_text(PAPER)
    Path("typo.yaml").write_text(PAPER.replace("name:", "nmae:", 1))
    return path


def test_build_prints_the_page_to_open(mine: Path, command: CommandLine) -> None:
    page = Path(command.said("apps", "build", mine, "--out", "site").strip())
    assert page == Path("site/index.html")
    assert "Writes letters." not in page.read_text(), "what only writers of queries read stays out"
    assert '"name":"Paper"' in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["build", "paper.yaml", "--out", "paper.yaml"], "paper.yaml: "),
        (["build", "paper.yaml", "--out", "."], "holds other files, such as 'paper.yaml'"),
        (["serve", "nope.yaml"], "nope.yaml:1: "),
        (["serve", "typo.yaml"], "unknown key `nmae`; did you mean name?"),
    ],
)
def test_bad_input_gives_one_error_line(mine: Path, arguments: list[str], told: str, command: CommandLine) -> None:
    assert told in command.refused("apps", *arguments)


@pytest.mark.slow
def test_serve_answers_until_it_is_interrupted(mine: Path) -> None:
    main = "from trajmill.flows.cli.app import main; main()"
    command = [sys.executable, "-c", main, "apps", "serve", str(mine), "--port", "0"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split(" ")[0]
        with urllib.request.urlopen(address) as answer:
            assert b'"name":"Paper"' in answer.read()
        server.send_signal(signal.SIGINT)
        assert server.wait(200) == 0


def test_generate_writes_apps_that_check_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: CommandLine
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.said("apps", "generate", "--count", "2", "--seed", "4", "--out", "more").startswith("2 apps with ")
    assert len(sorted(Path("more").iterdir())) == 2
    assert "more holds other files" in command.refused("apps", "generate", "--count", "2", "--out", "more")


OSWORLD = Path(__file__).parents[3] / ".venv-osworld"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    infeasible = {"id": "fly", "instruction": "Fly.", "evaluator": {"func": "infeasible"}}
    (tasks / "fly.json").write_text(json.dumps(infeasible))
    (tasks / "proxy.json").write_text(json.dumps({**infeasible, "id": "proxy", "proxy": True}))
    (tasks / "broken.json").write_text("{")
    return tasks


def configuration(python: Path) -> list[str]:
    Path("trajmill.toml").write_text(
        f'[environment]\nkind = "desktop"\ntasks = "tasks"\n[environment.osworld]\npython = "{python}"\n'
    )
    return ["--config", "trajmill.toml"]


@pytest.mark.slow
def test_incomplete_tasks_are_lines_and_others_are_counted(folder: Path, command: CommandLine) -> None:
    if not (OSWORLD / "installed").exists():
        pytest.skip("OSWorld's code is not there: `make osworld-env` installs it")
    asked = configuration(OSWORLD / "bin/python")
    broken, proxy, counted = command.said("tasks", "check", "tasks", *asked).splitlines()
    assert broken.startswith("tasks/broken.json: no JSON task: ")
    assert proxy == "tasks/proxy.json: needs a proxy; name a file of proxies (`proxy_file`)"
    assert counted == "1 of 3 tasks are complete, as far as no machine is needed to know"


def test_a_missing_environment_or_folder_is_one_line(folder: Path, command: CommandLine) -> None:
    asked = configuration(Path("no-python"))
    for tasks, message in (("tasks", "run `make osworld-env`"), ("nothing", "there are no task files")):
        assert message in command.refused("tasks", "check", tasks, *asked)
