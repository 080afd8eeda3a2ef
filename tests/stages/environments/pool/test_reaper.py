"""Nothing of a worker outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trajmill.stages.environments.pool.reaper import Reaper, end_processes

pytestmark = pytest.mark.slow

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
OWNER = f"""
import subprocess, sys, time
from pathlib import Path
from trajmill.stages.environments.pool.reaper import Reaper
program = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], stdout=subprocess.PIPE, text=True)
words = program.stdout.readline().strip()
reaper = Reaper()
reaper.watch([program.pid], [Path(sys.argv[1])])
print(words, flush=True)
time.sleep(600)
"""


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(process: int) -> set[int]:
    return {int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()}


def until_gone(processes: list[int], *folders: Path) -> None:
    deadline = time.monotonic() + 200
    while any(map(runs, processes)) or any(folder.exists() for folder in folders):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stubborn() -> tuple[subprocess.Popen[str], list[int]]:
    program = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    return program, [int(word) for word in program.stdout.readline().split()]


def test_a_killed_owner_leaves_no_process_no_folder_and_no_reaper(tmp_path: Path) -> None:
    folder = tmp_path / "a folder\nwith a name"
    (folder / "deep").mkdir(parents=True)
    command = [sys.executable, "-c", OWNER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        named = {int(word) for word in owner.stdout.readline().split()}
        left = [*named | children_of(owner.pid)]
        assert len(left) == len(named) + 1, "the reaper is one more"
        assert all(map(runs, left))
        owner.kill()
    until_gone(left, folder)


def test_closing_ends_what_is_left_and_spares_what_was_not_named(tmp_path: Path) -> None:
    (program, family), (other, others) = stubborn(), stubborn()
    reaper = Reaper()
    reaper.watch([], [])
    reaper.watch([program.pid, program.pid], [tmp_path / "not there"])
    reaper.close()
    reaper.close()
    assert not any(map(runs, family)) and all(map(runs, others))
    end_processes([other.pid])
    assert not any(map(runs, others))
    for each in (program, other):
        each.communicate()
    end_processes([program.pid])


def test_a_process_that_leaves_by_itself_may_clean_up_first(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"import sys; sys.stdin.read(); open({str(note)!r}, 'w').close()"
    program = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    reaper = Reaper()
    reaper.watch([program.pid], [])
    assert program.stdin is not None
    program.stdin.close()
    reaper.close()
    assert program.wait() == 0 and note.exists()


def test_a_reaper_that_was_killed_is_replaced(tmp_path: Path) -> None:
    program, family = stubborn()
    before = children_of(os.getpid())
    reaper = Reaper()
    reaper.watch([program.pid], [])
    (watcher,) = children_of(os.getpid()) - before
    os.kill(watcher, signal.SIGKILL)
    until_gone([watcher])
    reaper.watch([program.pid], [])
    reaper.close()
    assert not any(map(runs, family))
    program.communicate()
