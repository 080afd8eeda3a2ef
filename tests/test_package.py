"""Modules of the user's, in the working folder or on PYTHONPATH, never take the place of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trajmill

pytestmark = pytest.mark.slow

_ROOT = Path(trajmill.__path__[0]).parent
_OUR_FOLDERS = ("schemas", "warehouse", "stages", "pipelines", "flows")
_IN_WORKING_FOLDER = (*_OUR_FOLDERS, "trajmill", "json", "secrets", "subprocess", "asyncio")
_TRAP = "raise SystemExit('a module of the user was imported')\n"

_START_PLAYER = """
import asyncio
from trajmill.stages.environments.browsergym.environment import BrowserGymFactory
async def main():
    environment = await BrowserGymFactory()()
    try:
        print(await environment.score())
    finally:
        await environment.close()
asyncio.run(main())
"""
_START_DESKTOP = """
import asyncio
from pathlib import Path
from trajmill.stages.environments.desktop.environment import LocalDesktops
async def main():
    environment = await LocalDesktops(Path())()
    print(await environment.healthy())
    await environment.close()
asyncio.run(main())
"""
_START_MODEL_SERVER = """
import socket
from pathlib import Path
from tests.flows.serving.stand_in_vllm import stand_in
from trajmill.flows.serving.model_server import ModelServer, served
from trajmill.flows.serving.model_server import served_models
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with served([ModelServer("critic", "judge-7b", stand_in(Path("server"), port))], Path("logs")):
    print(served_models(f"http://127.0.0.1:{port}/v1"))
"""
_START_PREFECT = """
from pathlib import Path
from trajmill.flows.prefect_settings import short_lived_server
with short_lived_server(Path("prefect.log")):
    print("healthy")
"""


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A folder to work in, full of modules that end whichever program imports them."""
    for name in _IN_WORKING_FOLDER:
        (tmp_path / f"{name}.py").write_text(_TRAP)
    for name in _OUR_FOLDERS:
        package = tmp_path / "on_path" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(_TRAP)
    (tmp_path / "server").mkdir()
    return tmp_path


def run_in(folder: Path, *words: str) -> str:
    """What a program prints that is started in a folder, with the folder's `on_path` first on PYTHONPATH."""
    path = os.pathsep.join([str(folder / "on_path"), str(_ROOT)])
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")}
    done = subprocess.run(
        words,
        cwd=folder,
        env=variables | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_shadowed_import_is_noticed(trapped: Path) -> None:
    with pytest.raises(AssertionError, match="a module of the user was imported"):
        run_in(trapped, sys.executable, "-m", "trajmill.flows.cli")
    with pytest.raises(AssertionError, match="a module of the user was imported"):
        run_in(trapped, sys.executable, "-P", "-c", "import flows")


def test_the_started_command_runs_our_module(trapped: Path) -> None:
    command = Path(sys.executable).with_name("trajmill")
    assert "evolve" in run_in(trapped, str(command), "--help")


def test_the_keeper_of_a_model_server_runs_our_module(trapped: Path) -> None:
    assert run_in(trapped, sys.executable, "-P", "-c", _START_MODEL_SERVER) == "frozenset({'judge-7b'})\n"


def test_the_prefect_server_runs_our_module(trapped: Path, prefect_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(prefect_home))
    assert run_in(trapped, sys.executable, "-P", "-c", _START_PREFECT) == "healthy\n"


@pytest.mark.browser
def test_the_browsergym_player_runs_our_module(trapped: Path) -> None:
    assert run_in(trapped, sys.executable, "-P", "-c", _START_PLAYER) == "0.0\n"


@pytest.mark.desktop
def test_the_local_desktop_runs_our_module(trapped: Path) -> None:
    assert run_in(trapped, sys.executable, "-P", "-c", _START_DESKTOP) == "True\n"
