"""Runs a trainer in its own process: logs its output, ends it if it hangs, and reports how it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import Final, NamedTuple

from trajmill.schemas.errors import TrainingFailedError
from trajmill.stages.models.vllm_offline.watchdog import ProcessWatchdog

LOG_FILE: Final = "training.log"
"""The file in the folder of a training with the output of its trainer."""
_LAST_LINES = 300
_ERROR = re.compile(r"(\[\S*\]:\s*)?([\w.]*(Error|Exception)|\S+: error): \S")
"""Matches the start of an error line, also after the mark of the process that printed it."""
_TERMINATED_SECONDS = 10.0
_LAST_WORDS_SECONDS = 5.0
"""Longest wait for the end of the output of a trainer that has exited."""


class ChildLimits(NamedTuple):
    """The time limits of a trainer."""

    silent_seconds: float
    """Most seconds without a line of output."""
    seconds: float | None = None
    """Most seconds in total; None for no limit."""


def run_child(
    command: Sequence[str],
    log: Path,
    limits: ChildLimits,
    folder: Path,
    variables: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Run a command, without a shell, to its end; its process group ends with it, or with this process.

    Its output goes to the file `log`, and line by line to `on_line`. Raises TrainingFailedError if it cannot start,
    hangs, takes too long, or ends with a status other than 0.
    """
    try:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise TrainingFailedError(f"the trainer {command[0]} cannot be started: {error.strerror or error}") from error
    watchdog = ProcessWatchdog([process.pid])
    last: deque[str] = deque(maxlen=_LAST_LINES)
    try:
        with log.open("a", encoding="utf-8") as file:
            for line in _lines(process, limits, last):
                file.write(line)
                file.flush()
                last.append(line)
                if on_line is not None:
                    on_line(line)
        status = process.wait()
    finally:
        _end_group(process)
        watchdog.dismiss()
    if status:
        ended = f"died of signal {-status}" if status < 0 else f"ended with status {status}"
        ended = "was killed, as it is when memory runs out" if status == -signal.SIGKILL else ended
        raise TrainingFailedError(f"the trainer {ended}: {_last_output(last)}")


def _lines(process: subprocess.Popen[str], limits: ChildLimits, last: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the output until the trainer exits."""
    lines: Queue[str | None] = Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)

    def end_queue() -> None:
        # A child that the trainer left behind may hold its output open.
        process.wait()
        reader.join(_LAST_WORDS_SECONDS)
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    threading.Thread(target=end_queue, daemon=True).start()
    began = time.monotonic()
    while True:
        left = float("inf") if limits.seconds is None else began + limits.seconds - time.monotonic()
        try:
            line = lines.get(timeout=max(min(limits.silent_seconds, left), 0.0))
        except Empty:
            late = left <= limits.silent_seconds
            why = f"took over {limits.seconds:,.0f} s" if late else f"hung: silent for {limits.silent_seconds:,.0f} s"
            raise TrainingFailedError(f"the trainer {why}, and was ended; {_last_output(last)}") from None
        if line is None:
            return
        yield line


def _end_group(process: subprocess.Popen[str]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
        except ProcessLookupError:
            return
        try:
            process.wait(_TERMINATED_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def _last_output(lines: Sequence[str]) -> str:
    printed = [line.strip() for line in lines if any(map(str.isalnum, line))]
    errors = [line for line in printed if _ERROR.match(line)]
    if errors:
        return f"its last error is {errors[-1][:300]!r}"
    return f"its last line is {printed[-1][:300]!r}" if printed else "it printed nothing"
