"""A desktop session: its X server, session bus, accessibility bus, window manager and programs."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from jeepney.wrappers import DBusErrorResponse

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.local.accessibility.bus import Bus, BusCall
from trajmill.stages.environments.desktop.local.display.frame_buffer import FrameBuffer
from trajmill.stages.environments.desktop.local.display.windows import Windows
from trajmill.stages.environments.desktop.local.processes import die_with_parent, end_descendants
from trajmill.stages.environments.desktop.local.session.home import make_home, variables

T = TypeVar("T")

_BUS_LAUNCHER = Path("/usr/libexec/at-spi-bus-launcher")
_NEEDED = ("Xvfb", "openbox", "dbus-daemon")
_SECONDS_TO_START = 30.0
_POLL_SECONDS = 0.01
_SECONDS_PER_CALL = 5.0


class LaunchedProgram(NamedTuple):
    """A program that a task has started."""

    name: str
    process: subprocess.Popen[bytes]


class Session:
    """A running session; all its programs are children of this process."""

    def __init__(self, user: Path, folder: Path, size: Size) -> None:
        """Start a session with a fresh home at `user` and its other files under `folder`, and wait until it is ready.

        Raises:
            EnvironmentFailure: a program is missing, or was not ready in time (class `setup`).
        """
        refuse_missing_programs()
        self.home = make_home(user, folder)
        self._log = (folder / "programs.log").open("ab")
        self.programs: list[LaunchedProgram] = []
        display, bus_address = self._start_x(size), f"unix:path={self.home.runtime / 'bus'}"
        self.variables = variables(self.home, display, bus_address, dict(os.environ))
        self._spawn(["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={bus_address}"])
        self._spawn([str(_BUS_LAUNCHER), "--launch-immediately", "--a11y=1"])
        self._spawn(["openbox", "--config-file", str(self.home.config / "openbox/rc.xml")])
        self.frame = self._until("the X server", lambda: FrameBuffer(self.home.screen))
        self.windows = self._until("the X server", lambda: Windows(display))
        self.accessibility = self._until("the accessibility bus", lambda: _accessibility_bus(bus_address))
        # A program that starts before the window manager may never show its window.
        self._until("the window manager", self.windows.require_manager)
        self.variables["AT_SPI_BUS_ADDRESS"] = self.accessibility.address

    def launch(self, command: Sequence[str]) -> LaunchedProgram:
        """Start a program of the task, given as an argument list, without a shell."""
        program = LaunchedProgram(Path(command[0]).name, self._spawn(command))
        self.programs.append(program)
        return program

    def run(self, command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Run a program to its end.

        Raises:
            subprocess.TimeoutExpired: it took longer than `seconds`.
            OSError: it cannot be started.
        """
        return subprocess.run(
            list(command),
            env=self.variables,
            cwd=self.home.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            preexec_fn=die_with_parent,
            check=False,
        )

    def close(self) -> None:
        """End all programs; their files stay until the next session starts."""
        self.accessibility.close()
        self.windows.close()
        self.frame.close()
        self._log.close()
        end_descendants(os.getpid())

    def _start_x(self, size: Size) -> str:
        """Start the X server; returns its display, e.g. `:7`."""
        read, write = os.pipe()
        screen = f"{size.width}x{size.height}x24"
        command = ["Xvfb", "-displayfd", str(write), "-screen", "0", screen, "-fbdir", str(self.home.screen)]
        subprocess.Popen(
            [*command, "-nolisten", "tcp", "-noreset"],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(write,),
            preexec_fn=die_with_parent,
        )
        os.close(write)
        number = b""
        try:
            while not number.endswith(b"\n"):
                ready, _, _ = select.select([read], [], [], _SECONDS_TO_START)
                piece = os.read(read, 16) if ready else b""
                if not piece:
                    raise EnvironmentFailure("the X server did not start", FailureClass.SETUP)
                number += piece
        finally:
            os.close(read)
        return f":{number.strip().decode()}"

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            list(command),
            env=self.variables,
            cwd=self.home.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            preexec_fn=die_with_parent,
        )

    def _until(self, what: str, attempt: Callable[[], T]) -> T:
        """Repeat an attempt until it does not raise.

        Raises:
            EnvironmentFailure: it still raises after some seconds (class `setup`).
        """
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                return attempt()
            except (OSError, DBusErrorResponse, LookupError, ValueError) as error:
                if time.monotonic() > deadline:
                    raise EnvironmentFailure(f"{what} is not ready: {error}", FailureClass.SETUP) from error
            time.sleep(_POLL_SECONDS)


def refuse_missing_programs() -> None:
    """Check that the programs that every session needs are installed.

    Raises:
        EnvironmentFailure: one is missing (class `setup`); the message names it and says how to install it.
    """
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if not missing and not _BUS_LAUNCHER.exists():
        missing = [_BUS_LAUNCHER.name]
    if missing:
        raise EnvironmentFailure(f"{missing[0]} is not installed; run `make system-deps`", FailureClass.SETUP)


def _accessibility_bus(session_bus: str) -> Bus:
    """Connect to the accessibility bus of a session."""
    session = Bus(session_bus)
    try:
        call = BusCall("org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress")
        answer = session.ask_one(call, _SECONDS_PER_CALL)
    finally:
        session.close()
    if not answer or not answer[0]:
        raise LookupError("it has no address")
    bus = Bus(answer[0])
    # Toolkits fill the cache of objects, which is read in one call, only if somebody listens to events.
    listen = BusCall(
        "org.a11y.atspi.Registry",
        "/org/a11y/atspi/registry",
        "org.a11y.atspi.Registry",
        "RegisterEvent",
        "s",
        ("object:state-changed:focused",),
    )
    if bus.ask_one(listen, _SECONDS_PER_CALL) is None:
        bus.close()
        raise LookupError("its registry does not answer")
    return bus
