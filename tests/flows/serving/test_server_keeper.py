from __future__ import annotations

import subprocess
import sys

import pytest

from tests.flows.serving.process_groups import is_gone, living

pytestmark = pytest.mark.slow

_CHILD = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def keeper(program: str, start_new_session: bool = True) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trajmill.flows.serving.server_keeper", "0.2", sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )


@pytest.mark.parametrize(
    ("program", "code"), [("raise SystemExit(3)", 3), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137)]
)
def test_the_exit_code_is_that_of_the_program_and_its_children_leave(program: str, code: int) -> None:
    process = keeper(_CHILD + program)
    assert process.wait() == code
    assert is_gone(process.pid)
    process.communicate()


def test_a_program_that_does_not_listen_is_made_to_end() -> None:
    process = keeper(_DEAF)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    assert len(living(process.pid)) == 2
    process.communicate()  # closes its standard input, as the end of an owner does
    assert is_gone(process.pid)


def test_it_kills_only_its_own_process_group() -> None:
    _, said = keeper("pass", start_new_session=False).communicate()
    assert said == "the keeper of a server has to lead a process group, which it ends as a whole\n"
