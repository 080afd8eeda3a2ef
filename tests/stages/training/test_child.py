import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.stages.environments.processes import runs, until_gone
from trajmill.schemas.errors import TrainingFailedError
from trajmill.stages.training.child import run_child


def run(script: str, folder: Path, **more: str) -> list[str]:
    lines: list[str] = []
    command = [sys.executable, "-u", "-c", script]
    run_child(command, folder / "log", folder, 60, variables=more, on_line=lambda line: lines.append(line.strip()))
    return lines


def test_it_runs_in_its_folder_and_all_it_prints_is_kept(tmp_path: Path) -> None:
    script = "import os, sys; print(os.getcwd(), os.environ['WORD'], flush=True); print('oh', file=sys.stderr)"
    assert run(script, tmp_path, WORD="a b") == [f"{tmp_path} a b", "oh"]
    assert (tmp_path / "log").read_text() == f"{tmp_path} a b\noh\n"


def test_a_failure_gives_one_error_line_with_its_last_words_and_a_kill_its_probable_cause(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailedError, match=r"ended with status 3: its last line is 'no GPU'$"):
        run("import sys; print('begin'); print('no GPU'); print(); sys.exit(3)", tmp_path)
    with pytest.raises(TrainingFailedError, match=r"last error is '\[rank0\]: ValueError: no rows'"):
        run("print('[rank0]: ValueError: no rows'); print('='); print('exit code: 1'); raise SystemExit(1)", tmp_path)
    with pytest.raises(TrainingFailedError, match="ended with status 1: it printed nothing"):
        run("import os; os._exit(1)", tmp_path)
    with pytest.raises(TrainingFailedError, match="was killed, as it is when memory runs out"):
        run("import os; os.kill(os.getpid(), 9)", tmp_path)


@pytest.mark.slow
def test_a_trainer_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(TrainingFailedError, match=r"hung: silent for 2 s, and was ended; its last line is '\d+'"):
        run_child(["sh", "-c", "sleep 60 & echo $!; sleep 60"], tmp_path / "log", tmp_path, 2)
    assert time.monotonic() - began < 30
    assert not runs(int((tmp_path / "log").read_text()))


@pytest.mark.parametrize(("status", "new_session"), [(0, False), (3, True)])
def test_a_trainer_is_done_at_its_exit_though_a_child_goes_on(status: int, new_session: bool, tmp_path: Path) -> None:
    started = f"subprocess.Popen(['sleep', '30'], start_new_session={new_session})"
    began = time.monotonic()
    with pytest.raises(TrainingFailedError, match="ended with status 3") if status else nullcontext():
        run(f"import subprocess, sys; print('trained', {started}.pid); sys.exit({status})", tmp_path)
    assert time.monotonic() - began < 15
    said, child = (tmp_path / "log").read_text().split()
    assert said == "trained"
    if new_session:
        os.kill(int(child), signal.SIGKILL)
    # The kernel ends a killed process a moment after the signal.
    until_gone([int(child)])


@pytest.mark.slow
def test_a_trainer_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    script = "while true; do echo working; sleep 0.05; done"
    with pytest.raises(TrainingFailedError, match="took over 2 s, and was ended; its last line is 'working'"):
        run_child(["sh", "-c", script], tmp_path / "log", tmp_path, 60, 2)


def test_a_trainer_ends_with_its_owner_that_is_killed(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from trajmill.stages.training.child import run_child
folder = Path(sys.argv[1])
run_child(["sh", "-c", "echo $$; sleep 600"], folder / "log", folder, 600, on_line=lambda line: print(line, flush=True))
"""
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    trainer = int(owner.stdout.readline())
    assert runs(trainer)
    owner.kill()
    owner.communicate()
    until_gone([trainer])


def test_the_command_is_no_shells(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailedError, match="the trainer no-such-program cannot be started: No such file"):
        run_child(["no-such-program"], tmp_path / "log", tmp_path, 60)
    command = [sys.executable, "-c", "import sys; print(sys.argv[1:])", "$HOME; ls", "*"]
    run_child(command, tmp_path / "log", tmp_path, 60)
    assert (tmp_path / "log").read_text() == "['$HOME; ls', '*']\n"
    assert [file.name for file in tmp_path.iterdir()] == ["log"]
