import os
import re
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


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A folder to work in, full of modules that end whichever program imports them."""
    for name in _IN_WORKING_FOLDER:
        (tmp_path / f"{name}.py").write_text(_TRAP)
    for name in _OUR_FOLDERS:
        package = tmp_path / "on_path" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(_TRAP)
    return tmp_path


def run_in(folder: Path, *words: str) -> str:
    """What a program prints that is started in a folder, with the folder's `on_path` first on PYTHONPATH."""
    path = os.pathsep.join([str(folder / "on_path"), str(_ROOT)])
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")}
    variables["PYTHONPATH"] = path
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=500, check=False)
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


def test_every_python_that_we_start_leaves_the_working_folder_out() -> None:
    """A trainer's own interpreter is the user's, with the modules that he gives it."""
    theirs = _ROOT / "trajmill/stages/training/hugging_face/launch.py"
    files = sorted({*(_ROOT / "trajmill").rglob("*.py")} - {theirs})
    options = [each for file in files for each in re.findall(r"sys\.executable,\s*(\S+)", file.read_text())]
    assert len(options) >= 3 and set(options) == {'"-P",', '"-I",'}
