"""`trajmill tasks check`."""

import json
from pathlib import Path

import pytest

from trajmill.flows.cli.app import run

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
def test_incomplete_tasks_are_lines_and_others_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not (OSWORLD / "installed").exists():
        pytest.skip("OSWorld's code is not there: `make osworld-env` installs it")
    assert run(["tasks", "check", "tasks", *configuration(OSWORLD / "bin/python")]) == 0
    broken, proxy, counted = capsys.readouterr().out.splitlines()
    assert broken.startswith("tasks/broken.json: no JSON task: ")
    assert proxy == "tasks/proxy.json: needs a proxy; name a file of proxies (`proxy_file`)"
    assert counted == "1 of 3 tasks are complete, as far as no machine is needed to know"


def test_a_missing_environment_or_folder_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = configuration(Path("no-python"))
    for tasks, message in (("tasks", "run `make osworld-env`"), ("nothing", "there are no task files")):
        assert run(["tasks", "check", tasks, *asked]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
