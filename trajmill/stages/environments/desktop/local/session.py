"""A desktop session: its X server, session bus, accessibility bus, window manager and programs."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, TypeVar

from jeepney.wrappers import DBusErrorResponse

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.local.atspi import Bus, BusCall
from trajmill.stages.environments.desktop.local.display import FrameBuffer, Windows
from trajmill.stages.environments.desktop.local.processes import die_with_parent, end_descendants

T = TypeVar("T")

_BUS_LAUNCHER = Path("/usr/libexec/at-spi-bus-launcher")
_NEEDED = ("Xvfb", "openbox", "dbus-daemon")
_SECONDS_TO_START = 30.0
_POLL_SECONDS = 0.01
_SECONDS_PER_CALL = 5.0
_SETTINGS = files(__package__) / "settings"
_FILES = {
    "gtk-3.0/settings.ini": (_SETTINGS / "gtk.ini").read_bytes(),
    "openbox/rc.xml": (_SETTINGS / "openbox.xml").read_bytes(),
    "libreoffice/4/user/registrymodifications.xcu": (_SETTINGS / "libreoffice.xml").read_bytes(),
}
"""Settings of programs, read before the process mounts another `/home` and drops the rights of root."""
CREATED = 1_767_225_600
"""Modification time of all files in a fresh home, in seconds since 1970; programs show it."""
_FOLDERS = ("Desktop", "Documents", "Downloads", ".cache", ".local/share")


class LaunchedProgram(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]


class Session:
    def __init__(self, user: Path, folder: Path, size: Size) -> None:
        """Start a session with a fresh home at `user`; EnvironmentFailure (`setup`) if a program is missing or late."""
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
        program = LaunchedProgram(Path(command[0]).name, self._spawn(command))
        self.programs.append(program)
        return program

    def run(self, command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; raises subprocess.TimeoutExpired after `seconds`, or OSError."""
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
        self.accessibility.close()
        self.windows.close()
        self.frame.close()
        self._log.close()
        end_descendants(os.getpid())

    def _start_x(self, size: Size) -> str:
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
        """Repeat an attempt until it does not raise; EnvironmentFailure (`setup`) after some seconds."""
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                return attempt()
            except (OSError, DBusErrorResponse, LookupError, ValueError) as error:
                if time.monotonic() > deadline:
                    raise EnvironmentFailure(f"{what} is not ready: {error}", FailureClass.SETUP) from error
            time.sleep(_POLL_SECONDS)


def refuse_missing_programs() -> None:
    """Raise EnvironmentFailure (`setup`) that names a missing program and how to install it."""
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if not missing and not _BUS_LAUNCHER.exists():
        missing = [_BUS_LAUNCHER.name]
    if missing:
        raise EnvironmentFailure(f"{missing[0]} is not installed; run `make system-deps`", FailureClass.SETUP)


def _accessibility_bus(session_bus: str) -> Bus:
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
    registry, event = "org.a11y.atspi.Registry", ("object:state-changed:focused",)
    listen = BusCall(registry, "/org/a11y/atspi/registry", registry, "RegisterEvent", "s", event)
    if bus.ask_one(listen, _SECONDS_PER_CALL) is None:
        bus.close()
        raise LookupError("its registry does not answer")
    return bus


class SessionFolders(NamedTuple):
    folder: Path
    config: Path
    """Settings of programs, at another path in each session: LibreOffice opens a file in a running LibreOffice with
    the same path of settings."""
    runtime: Path
    screen: Path


def make_home(user: Path, folder: Path) -> SessionFolders:
    home = SessionFolders(user, folder / "config", folder / "run", folder / "screen")
    for path in home:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    home.runtime.chmod(0o700)
    (home.folder / ".config").symlink_to(home.config)
    for name in _FOLDERS:
        (home.folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in _FILES.items():
        path = home.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for path in (*home.folder.rglob("*"), *home.config.rglob("*")):
        os.utime(path, (CREATED, CREATED))
    return home


def variables(home: SessionFolders, display: str, session_bus: str, inherited: dict[str, str]) -> dict[str, str]:
    return {
        "PATH": inherited.get("PATH", "/usr/bin:/bin"),
        "HOME": str(home.folder),
        "XDG_CONFIG_HOME": str(home.config),
        "XDG_CACHE_HOME": str(home.folder / ".cache"),
        "XDG_DATA_HOME": str(home.folder / ".local/share"),
        "XDG_RUNTIME_DIR": str(home.runtime),
        "TMPDIR": str(home.runtime),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "DISPLAY": display,
        "DBUS_SESSION_BUS_ADDRESS": session_bus,
        "GSETTINGS_BACKEND": "memory",
        "GTK_MODULES": "gail:atk-bridge",
        "NO_AT_BRIDGE": "0",
        "SAL_USE_VCLPLUGIN": "gtk3",
        "GIO_USE_VFS": "local",
    }
