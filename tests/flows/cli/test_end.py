"""A command ends before Python takes itself apart, but after all that was to be done at its end."""

import signal
import subprocess
import sys

import pytest

from trajmill.flows.cli.app import STOPPED

pytestmark = pytest.mark.slow

COMMAND = """
import atexit, sys, threading, time
from trajmill.flows.cli import app as cli

class Late:
    def __del__(self):
        print("taken apart", flush=True)

late = Late()
late.itself = late

def run(arguments, ends_in_time):
    atexit.register(print, "at its end")
    threading.Thread(target=lambda: (time.sleep(0.2), print("in a thread"))).start()
    print("done")
    return int(arguments[0])

cli.run = run
cli.main()
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_ends_with_its_code_once_its_threads_and_handlers_are_done(code: int) -> None:
    ended = subprocess.run([sys.executable, "-c", COMMAND, str(code)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert ended.stdout.split("\n") == ["done", "in a thread", "at its end", ""]


DEAF = """
import time
from trajmill.flows.cli import app as cli

def waits(**arguments):
    while True:
        try:
            print("waits", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            pass

cli.app, cli._LAST_SECONDS = waits, 0.5
cli.main()
"""


def test_sigterm_ends_a_command_that_waits_for_what_does_not_answer() -> None:
    with subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None and command.stderr is not None
        for _ in range(2):
            assert command.stdout.readline() == b"waits\n"
            command.send_signal(signal.SIGTERM)
        assert command.wait() == 128 + signal.SIGTERM
        assert command.stderr.read().decode() == f"\n{STOPPED}\n"
