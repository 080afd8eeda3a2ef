"""Runs a trainer in its own process: logs its output, ends it if it hangs, and reports how it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Final, TextIO

from trajmill.schemas.errors import TrainingFailedError
from trajmill.stages.reaper import Reaper, end_group

LOG_FILE: Final = "training.log"
_LAST_LINES = 300
_SECONDS_TO_END = 10.0
_ERROR = re.compile(r"(\[\S*\]:\s*)?([\w.]*(Error|Exception)|\S+: error): \S")
"""Matches the start of an error line, also after the mark of the process that printed it."""


def run_child(
    command: Sequence[str],
    log: Path,
    folder: Path,
    silent_seconds: float,
    seconds: float = inf,
    variables: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Run a command, without a shell, to its end; its process group ends with it, or with this process.

    Its output goes to the file `log`, and line by line to `on_line`. Raises TrainingFailedError if it cannot start, is
    silent for `silent_seconds`, takes longer than `seconds`, or ends with a status other than 0.
    """
    with log.open("ab") as output, log.open(encoding="utf-8", errors="replace") as written:
        written.seek(log.stat().st_size)
        try:
            process = subprocess.Popen(
                list(command),
                cwd=folder,
                env={**os.environ, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            said = error.strerror or error
            raise TrainingFailedError(f"the trainer {command[0]} cannot be started: {said}") from error
        reaper = Reaper()
        reaper.watch([], [], groups=[process.pid])
        last: deque[str] = deque(maxlen=_LAST_LINES)
        try:
            for line in _lines(process, written, silent_seconds, seconds, last):
                last.append(line)
                if on_line is not None:
                    on_line(line)
        finally:
            end_group(process, _SECONDS_TO_END)
            reaper.close()
    if status := process.returncode:
        ended = f"died of signal {-status}" if status < 0 else f"ended with status {status}"
        ended = "was killed, as it is when memory runs out" if status == -signal.SIGKILL else ended
        raise TrainingFailedError(f"the trainer {ended}: {_last_output(last)}")


def _lines(
    process: subprocess.Popen[bytes], log: TextIO, silent_seconds: float, seconds: float, last: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of the log until the trainer exits, though a child that it leaves behind may go on writing."""
    began = heard = time.monotonic()
    rest = ""
    while True:
        has_ended = process.poll() is not None
        *whole, rest = (rest + log.read()).split("\n")
        yield from whole
        if has_ended:
            if rest:
                yield rest
            return
        now = time.monotonic()
        heard = now if whole else heard
        late = now - began > seconds
        if late or now - heard > silent_seconds:
            why = f"took over {seconds:,.0f} s" if late else f"hung: silent for {silent_seconds:,.0f} s"
            raise TrainingFailedError(f"the trainer {why}, and was ended; {_last_output(last)}")
        time.sleep(0.05)


def _last_output(lines: Sequence[str]) -> str:
    printed = [line.strip() for line in lines if any(map(str.isalnum, line))]
    errors = [line for line in printed if _ERROR.match(line)]
    if errors:
        return f"its last error is {errors[-1][:300]!r}"
    return f"its last line is {printed[-1][:300]!r}" if printed else "it printed nothing"
