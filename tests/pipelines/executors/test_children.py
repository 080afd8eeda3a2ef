from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

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
