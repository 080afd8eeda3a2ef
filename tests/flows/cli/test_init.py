"""`trajmill init` writes what a run takes and refuses what does not answer; app files and tasks are checked."""

import json
import os
import pty
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.command_line import CommandLine
from tests.http_server import QuietHandler, serving
from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import serving as serving_phones
from tests.stages.environments.simulated.worlds import PAPER
from trajmill.flows.cli.init import example_names
from trajmill.flows.configuration.file import load_config
from trajmill.stages.environments.simulated.world import load_world

_PAGES = {
    "/v1/models": json.dumps({"data": [{"id": "Qwen/Qwen2.5-VL-7B-Instruct"}]}),
    "/two/models": json.dumps({"data": [{"id": "small"}, {"id": "GUI-Owl-7B"}]}),
    "/app": '<html><title>Home | My "list" &amp; more — a to-do list</title></html>',
}


class _Pages(QuietHandler):
    def reply(self) -> None:
        found = self.path in _PAGES
        self.answer(_PAGES.get(self.path, "").encode(), 200 if found else 404, Content_Type="text/html")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server with models and an app; the working folder is empty."""
    monkeypatch.chdir(tmp_path)
    with serving(_Pages) as address:
        yield address


def test_a_model_and_a_web_app_become_thirty_lines(server: str, command: CommandLine) -> None:
    weights = Path("weights")
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    model = ["--model", f"{server}/v1", "--weights", "weights"]
    told = command.said("init", *model, "--web", f"{server}/app", "--root", "rows")
    assert "next  trajmill graph explore trajmill.toml --app my-list-more\n" in told
    written = Path("trajmill.toml").read_text()
    assert len([line for line in written.splitlines() if line]) <= 30
    config = load_config(unneeded="graphs.files")
    endpoint = config.endpoints["mine"]
    assert (endpoint.version, endpoint.vision_family.name) == ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl")
    assert config.explore.apps["my-list-more"].title == 'My "list" & more'
    assert (config.environment.kind, config.train.kind, config.run.root) == ("browser", "trl-sft", Path("rows"))


def test_without_options_it_is_the_default_job_under_a_name(server: str, command: CommandLine) -> None:
    assert "next  trajmill evolve --config mine.toml\n" in command.said("init", "mine.toml")
    assert load_config("mine.toml").environment == load_config().environment
    assert "mine.toml exists" in command.refused("init", "mine.toml", "--root", "other")
    assert load_config("mine.toml").run.root != Path("other")


def test_app_files_are_named(server: str, command: CommandLine) -> None:
    Path("apps").mkdir()
    Path("apps/paper.yaml").write_text(PAPER)
    command.said("init", "--apps", "apps")
    assert load_config().environment.model_dump()["apps"] == (Path("apps/paper.yaml"),)
    Path("apps/typo.yaml").write_text(PAPER.replace("name:", "nmae:", 1))
    assert "apps/typo.yaml:" in command.failed("init", "other.toml", "--apps", "apps")


def test_a_phone_must_have_the_package(server: str, monkeypatch: pytest.MonkeyPatch, command: CommandLine) -> None:
    phone = Phone("emulator-5554", load_world())
    with serving_phones([phone]) as adb:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
        refused = command.refused("init", "--phone", "org.trajmill.nothing")
        assert "emulator-5554 has no 'org.trajmill.nothing'" in refused
        command.said("init", "--phone", "org.trajmill.notes")
    settings = load_config(unneeded="graphs.files").environment.model_dump()
    assert (settings["port"], settings["apps"]) == (adb.port, {"notes": "org.trajmill.notes"})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--model", "SERVER/v2"], "/v2 lists no models (status 404)"),
        (["--model", "http://127.0.0.1:9/v1"], "Connection refused"),
        (["--model", "SERVER/two"], "serves GUI-Owl-7B, small; choose one with --name"),
        (["--model", "SERVER/two", "--name", "large"], "choose one with --name"),
        (["--model", "SERVER/two", "--name", "small"], "does not show its family"),
        (["--model", "SERVER/v1", "--family", "qwen2-vl"], "no model family is named 'qwen2-vl'"),
        (["--model", "SERVER/v1", "--weights", "nowhere"], "nowhere has no config.json"),
        (["--weights", "nowhere"], "name its address"),
        (["--web", "file:///etc/passwd"], "begins with http:// or https://"),
        (["--web", "http://["], "'http://[' is no address"),
        (["--web", "http://127.0.0.1:port/"], "is no address"),
        (["--web", "SERVER/gone"], "/gone does not answer (status 404)"),
        (["--web", "SERVER/app", "--apps", "apps"], "--web and --apps: a run has one environment"),
        (["--apps", "nowhere"], "nowhere has no *.yaml file"),
        (["--desktop", "no-such-program --fast"], "not in PATH: no-such-program"),
        (["--desktop", "'open"], "is no command"),
        (["--root", "/proc/rows"], "cannot be written"),
        (["--example", "nothing"], "there is no example 'nothing'; there are "),
    ],
)
def test_what_fails_its_test_writes_nothing(server: str, arguments: list[str], told: str, command: CommandLine) -> None:
    assert told in command.refused("init", *(each.replace("SERVER", server) for each in arguments))
    assert not list(Path().iterdir())


@pytest.mark.parametrize("name", example_names())
def test_each_example_is_written_with_its_files(server: str, name: str, command: CommandLine) -> None:
    command.said("init", "--example", name)
    assert load_config().run.root == Path("trajmill-data")


@pytest.mark.slow
def test_on_a_terminal_it_asks_until_the_test_passes(server: str, tmp_path: Path) -> None:
    main = "from trajmill.flows.cli.app import main; main()"
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", main, "init"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as asking:
        os.close(theirs)
        answers = [f"{server}/nothing", f"{server}/two", "GUI-Owl-7B", "", "", "boat", "web", f"{server}/app", "rows"]
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        shown, _ = asking.communicate(timeout=120)
        os.close(ours)
    assert asking.returncode == 0, shown
    assert "lists no models (status 404)" in shown and "'boat' is none of" in shown
    config = load_config(tmp_path / "trajmill.toml", unneeded="graphs.files")
    assert (config.endpoints["mine"].vision_family.name, config.environment.kind) == ("gui-owl", "browser")


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
    ],
)
def test_bad_input_gives_one_error_line(mine: Path, arguments: list[str], told: str, command: CommandLine) -> None:
    assert told in command.refused("apps", *arguments)
    assert "unknown key `nmae`; did you mean name?" in command.failed("apps", "check", "typo.yaml")


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
    assert counted == "1 of 3 tasks are complete (checked without a machine)"


def test_a_missing_environment_or_folder_is_one_line(folder: Path, command: CommandLine) -> None:
    asked = configuration(Path("no-python"))
    for tasks, message in (("tasks", "run `make osworld-env`"), ("nothing", "there are no task files")):
        assert message in command.refused("tasks", "check", tasks, *asked)
