import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.stages.environments.processes import descendants, until_gone
from trajmill.pipelines.drawing import draw_elsewhere, drawing_processes
from trajmill.pipelines.executors.processes import _idle, elsewhere, side_by_side
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle

pytestmark = pytest.mark.slow


def die_once(folder: Path, shard: str) -> None:
    tries = folder / shard
    tries.write_text(f"{tries.read_text() if tries.exists() else ''}x")
    if shard == "d" and tries.read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)


def die_unless_owner(shard: str) -> None:
    if multiprocessing.parent_process():
        os.kill(os.getpid(), signal.SIGKILL)


def refuse(shard: str) -> None:
    raise BadInputError(f"{shard}: is wrong")


def hold(shard: str) -> None:
    vars(multiprocessing)[shard] = multiprocessing.Lock()


def hold_until_another_fails(shard: str) -> None:
    hold(shard)
    if shard == "a":
        time.sleep(0.5)
        raise BadInputError("a: is wrong")
    time.sleep(600)


def test_processes_that_are_ended_at_their_work_or_with_their_owner_leave_nothing_behind() -> None:
    code = (
        f"from {__name__} import BadInputError, hold, hold_until_another_fails, side_by_side\n"
        "try: side_by_side(hold_until_another_fails, ['a', 'b'], 2)\n"
        "except BadInputError as error: print(error)\n"
        "side_by_side(hold, ['a', 'b'], 2)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=500)
    assert (ended.stdout, ended.stderr) == ("a: is wrong\n", "")


def test_processes_end_when_their_owner_is_killed() -> None:
    draw = "from trajmill.pipelines.drawing import drawing_processes; drawing_processes().submit(len, '').result()"
    command = [sys.executable, "-c", f"import os; {draw}; os.write(1, b'drawn'); os.read(0, 1)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None and owner.stdout.read(5) == b"drawn"
        helpers = descendants(owner.pid)
        owner.kill()
    assert len(helpers) >= 2, "a fork server, and one that draws"
    until_gone(helpers)


def test_a_killed_process_costs_its_shard_alone_and_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    side_by_side(partial(die_once, tmp_path), ["a", "b", "c", "d"], 2)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "x", "b": "x", "c": "x", "d": "xx"}
    assert caplog.messages == ["a worker process died (exit code -9); another one takes over its shard"]


def test_a_process_that_is_killed_between_two_stages_is_replaced() -> None:
    elsewhere(print)
    for pool in _idle():
        for process in vars(pool)["_processes"].values():
            process.kill()
    elsewhere(print)


async def test_a_killed_process_that_draws_costs_no_screen() -> None:
    at = Observation(ScreenHandle("a", Size(1, 1), partial(bytes, b"drawn")), None, "")
    assert await draw_elsewhere(at) == b"drawn"
    for process in vars(drawing_processes())["_processes"].values():
        process.kill()
        process.join()
    assert [await draw_elsewhere(at) for _ in range(2)] == [b"drawn"] * 2


def test_processes_that_die_again_and_again_or_fail_end_the_stage_with_one_line() -> None:
    with pytest.raises(TrajmillError, match=r"died at one shard \(exit code -9\)"):
        side_by_side(die_unless_owner, ["a", "b"], 2)
    with pytest.raises(BadInputError, match=r"^a: is wrong$"):
        side_by_side(refuse, ["a"], 2)
    side_by_side(print, ["after an error there are processes again"], 2)


_OWNER = """
import os, signal
from concurrent.futures import ProcessPoolExecutor
from trajmill.pipelines.executors.processes import children_context, end_with

came = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: came.append(number))
with ProcessPoolExecutor(1, children_context([]), initializer=end_with, initargs=(os.getpid(),)) as pool:
    child = pool.submit(os.getpid).result()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.killpg(0, number)
    assert pool.submit(os.getpid).result() == child
    os.kill(child, signal.SIGTERM)
    while True:
        try:
            pool.submit(os.getpid).result()
        except Exception as error:
            print(came == [signal.SIGINT, signal.SIGTERM], type(error).__name__)
            break
"""


def test_signals_for_a_whole_group_reach_the_owner_and_no_child_while_one_for_a_child_ends_it() -> None:
    command = [sys.executable, "-c", _OWNER]
    ended = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True BrokenProcessPool\n", "")
