"""Worker processes side by side: they overlap, replace one that was killed, and tell errors as they are."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from trajmill.pipelines.work.processes import WorkerDiedError, side_by_side
from trajmill.schemas.errors import BadInputError

pytestmark = pytest.mark.slow


def meet(folder: Path, shard: str) -> None:
    """Wait until two processes are at work at the same time."""
    (folder / f"{os.getpid()}").touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.01)


def die_once(folder: Path, shard: str) -> None:
    """Kill this process at the first try of shard b."""
    tries = folder / shard
    tries.write_text(f"{tries.read_text() if tries.exists() else ''}x")
    if shard == "b" and tries.read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)


def die_always(shard: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(shard: str) -> None:
    raise BadInputError(f"{shard}: is wrong")


def hold(shard: str) -> None:
    """Keep a semaphore as long as this process lives, as progress bars of libraries do."""
    vars(multiprocessing)[shard] = multiprocessing.Lock()


def test_processes_that_end_with_their_owner_leave_nothing_behind() -> None:
    code = f"from {__name__} import hold, side_by_side; side_by_side(hold, ['a', 'b'], 2)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_two_processes_work_at_the_same_time(tmp_path: Path) -> None:
    side_by_side(partial(meet, tmp_path), ["a", "b"], 2)
    assert str(os.getpid()) not in {path.name for path in tmp_path.iterdir()}


def test_a_killed_process_is_replaced_and_its_shard_done_again(tmp_path: Path) -> None:
    side_by_side(partial(die_once, tmp_path), ["a", "b", "c", "d"], 2)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "x", "b": "xx", "c": "x", "d": "x"}


def test_processes_that_die_at_a_shard_again_and_again_end_the_stage_with_one_line() -> None:
    with pytest.raises(WorkerDiedError, match=r"died again and again \(exit code -9\)"):
        side_by_side(die_always, ["a", "b"], 2)


def test_an_error_of_the_work_is_raised_as_it_is_and_ends_the_others() -> None:
    with pytest.raises(BadInputError, match=r"^a: is wrong$"):
        side_by_side(refuse, ["a"], 2)
    side_by_side(print, ["after an error there are processes again"], 2)
