import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from trajmill.stages.models.vllm_offline.watchdog import ProcessWatchdog

_OWNER = """
import sys, time
from trajmill.stages.models.vllm_offline.watchdog import ProcessWatchdog
guard = ProcessWatchdog({int(sys.argv[1])})
print(guard.process_id, flush=True)
time.sleep(600)
"""


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_killed_owner_takes_its_engine_with_it(engine: subprocess.Popen[bytes]) -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, str(engine.pid)], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        guard = os.pidfd_open(int(owner.stdout.readline()))
    finally:
        owner.kill()
        owner.communicate()
    assert engine.wait(timeout=200) == -signal.SIGKILL
    # Readable once the guard itself has ended.
    assert select.select([guard], [], [], 60)[0]
    os.close(guard)


def test_a_dismissed_guard_leaves_the_engine_and_one_that_ended_is_ignored(engine: subprocess.Popen[bytes]) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert ProcessWatchdog({engine.pid, gone.pid}).dismiss() == 0
    assert engine.poll() is None
