"""The operations of a local desktop: session, files, programs, screen and actions."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.local.atspi import SECONDS_TO_READ, Reference, programs_call
from trajmill.stages.environments.desktop.local.display import DisplayInput, Windows
from trajmill.stages.environments.desktop.local.processes import HOME
from trajmill.stages.environments.desktop.local.session import CREATED, LaunchedProgram, Session
from trajmill.stages.environments.desktop.local.tree import read_tree
from trajmill.stages.environments.desktop.protocol import CommandResult

_SECONDS_FOR_WINDOW = 60.0
_SECONDS_FOR_WINDOW_OF_ANOTHER = 5.0
_SECONDS_FOR_FOCUS = 10.0
_SECONDS_TO_RUN = 60.0
_QUIET_SECONDS = 0.12
_LONGEST_SETTLE_SECONDS = 3.0
_POLL_SECONDS = 0.01
_OPENERS = (
    ({".csv", ".ods", ".xlsx", ".xls"}, ("soffice", "--calc", "--nologo", "--norestore")),
    ({".odt", ".docx", ".doc"}, ("soffice", "--writer", "--nologo", "--norestore")),
)


class RefusedError(Exception): ...


class LocalDesktop:
    """A session and its operations; one request uses it at a time."""

    def __init__(self, user: Path, folder: Path, size: Size) -> None:
        self._user = user
        self._folder = folder
        self.size = size
        self._start()

    def reset(self) -> None:
        if self._used:
            self._session.close()
            self._start()

    def launch(self, command: Sequence[str]) -> None:
        """Start a program and wait for its window; raises EnvironmentFailure if it failed or showed none in time."""
        self._used = True
        command = self._real_command(command)
        before = {window.number for window in self.windows.all()}
        try:
            program = self._session.launch(command)
        except OSError as error:
            message = f"{command[0]} cannot be started ({error.strerror}); `make system-deps` installs our own programs"
            raise EnvironmentFailure(message) from error
        self._wait_for_window(program, before)
        # A program answers no call while it loads. Keys are lost until an object has the focus; some never report it.
        self.settle(_SECONDS_FOR_WINDOW)
        deadline = time.monotonic() + _SECONDS_FOR_FOCUS
        while ':focused="true"' not in self.tree() and time.monotonic() < deadline:
            self.settle()

    def open_file(self, path: str) -> None:
        real = self.real_path(path)
        if real.is_dir():
            self.launch(("pcmanfm", str(real)))
        else:
            opener = next((command for suffixes, command in _OPENERS if real.suffix in suffixes), ("mousepad",))
            self.launch((*opener, str(real)))

    def run(self, command: Sequence[str]) -> CommandResult:
        self._used = True
        try:
            done = self._session.run(self._real_command(command), _SECONDS_TO_RUN)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentFailure(f"{command[0]}: {error}") from error
        return CommandResult(done.stdout, done.stderr, done.returncode)

    def write_file(self, path: str, content: bytes) -> None:
        self._used = True
        real = self.real_path(path)
        real.parent.mkdir(parents=True, exist_ok=True)
        real.write_bytes(content)
        os.utime(real, (CREATED, CREATED))

    def read_file(self, path: str) -> bytes:
        return self.real_path(path).read_bytes()

    def act(self, action: Action) -> None:
        """Do an action and let the screen settle; raises EnvironmentFailure after a crash, TimeoutError if late."""
        self._used = True
        self._input.perform(action)
        self.settle()

    def screenshot(self) -> bytes:
        self._refuse_crashed()
        # Fails if the X server is gone; the file with its pixels would still be there.
        self.windows.pointer()
        return self._session.frame.png(self._session.frame.raw())

    def tree(self) -> str:
        self._refuse_crashed()
        return read_tree(self._session.accessibility)

    @property
    def windows(self) -> Windows:
        return self._session.windows

    def real_path(self, path: str) -> Path:
        wanted = Path(path)
        return self._user / (wanted.relative_to(HOME) if wanted.is_relative_to(HOME) else wanted)

    def _real_command(self, command: Sequence[str]) -> list[str]:
        return [word.replace(str(HOME), str(self._user)) for word in command]

    def _start(self) -> None:
        self._session = Session(self._user, self._folder, self.size)
        self._input = DisplayInput(self.windows.display, lambda: self.windows.wait_for_programs(SECONDS_TO_READ))
        self._used = False

    def _wait_for_window(self, program: LaunchedProgram, before: set[int]) -> None:
        deadline = time.monotonic() + _SECONDS_FOR_WINDOW
        second_process_ended = False
        while before.issuperset(window.number for window in self.windows.all()):
            self._refuse_crashed()
            if program.process.poll() == 0 and not second_process_ended:
                # A program that already runs opens the window in its first process, and the second process ends.
                second_process_ended, deadline = True, time.monotonic() + _SECONDS_FOR_WINDOW_OF_ANOTHER
            if time.monotonic() > deadline:
                if second_process_ended:
                    return
                raise EnvironmentFailure(f"{program.name} showed no window")
            time.sleep(_POLL_SECONDS)

    def settle(self, seconds: float = SECONDS_TO_READ) -> None:
        """Wait until all programs have handled their events, so that they answer, and the screen stays the same."""
        self.windows.wait_for_programs(seconds)
        start = changed = time.monotonic()
        last = b""
        while (now := time.monotonic()) - start < _LONGEST_SETTLE_SECONDS:
            self._refuse_crashed()
            bus = self._session.accessibility
            answer = bus.ask_one(programs_call(), seconds)
            programs = [Reference(owner, path) for owner, path in answer[0]] if answer else []
            bus.ask([program.call("Accessible", "GetState") for program in programs], seconds)
            frame = self._session.frame.raw()
            if frame != last:
                last, changed = frame, now
            elif now - changed >= _QUIET_SECONDS:
                return
            time.sleep(_POLL_SECONDS)

    def _refuse_crashed(self) -> None:
        for program in self._session.programs:
            code = program.process.poll()
            if code:
                raise EnvironmentFailure(f"{program.name} ended with status {code}")
