"""Control a device through an adb server with adbutils; every call has a deadline, and a failed call raises.

adbutils is synchronous: one thread for each device keeps its calls in order, and devices apart. Output counts only with
the line of its exit status, because adb reports a cut connection like a finished command.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from adbutils import AdbClient, AdbConnection
from adbutils.errors import AdbError, AdbTimeout

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.android.commands import Command, ShellLine, shell_line

_STATUS = re.compile(rb"trajmill-exit:(\d{1,3})\r?\n?\Z")
_ECHO_STATUS = '; echo "trajmill-exit:$?"'
_LONGEST_STATUS = 32
_LONGEST_REQUEST = 0xFFFF
_CHUNK = 1 << 16
_BYTES_A_SECOND = 1e6


class ServerAddress(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Output(NamedTuple):
    """The output of a shell line, standard error included, and the exit status of its last command."""

    content: bytes
    status: int

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


class AdbDevice:
    """One device by its serial; one episode uses it at a time."""

    def __init__(self, address: ServerAddress, serial: str, seconds: float) -> None:
        """Connect to nothing yet: each call has a connection of its own, and `seconds` of time."""
        self.serial = serial
        self._client = _AdbServerClient(address, seconds)
        self._seconds = seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"adb-{serial}")

    async def run(self, *words: str) -> Output:
        return await self.run_all([words])

    async def run_all(self, commands: Sequence[Command]) -> Output:
        try:
            line = shell_line(commands)
        except ValueError as error:
            raise EnvironmentFailure(f"{self.serial}: {error}") from error
        return await self.run_line(line)

    async def run_line(self, line: ShellLine, given: bytes = b"") -> Output:
        """Run a line of the device's shell; raises EnvironmentFailure without a whole answer in time.

        `given` is its standard input, and adds a second for each megabyte.
        """
        call = asyncio.get_running_loop().run_in_executor(self._thread, self._run, line, given)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            self._abort()
            with suppress(EnvironmentFailure):
                await call
            raise

    def close(self) -> None:
        self._abort()
        self._thread.shutdown(wait=True)

    def _run(self, line: ShellLine, given: bytes) -> Output:
        seconds = self._seconds + len(given) / _BYTES_A_SECOND
        deadline = monotonic() + seconds
        try:
            with self._client.device(self.serial).open_transport(timeout=self._seconds) as connection:
                request = f"exec:{line}{_ECHO_STATUS}"
                if len(request.encode()) > _LONGEST_REQUEST:
                    raise ValueError("the command is longer than adb can carry")
                connection.send_command(request)
                connection.check_okay()
                connection.conn.settimeout(seconds)
                connection.conn.sendall(given)
                content = _read_all(connection.conn, deadline)
        except (TimeoutError, AdbTimeout) as error:
            raise EnvironmentFailure(f"{self.serial} did not answer within {seconds:g} s") from error
        except (AdbError, OSError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise EnvironmentFailure(f"{self.serial}: {reason}") from error
        end = _STATUS.search(content, max(0, len(content) - _LONGEST_STATUS))
        if end is None:
            raise EnvironmentFailure(f"{self.serial}: the connection was cut after {len(content)} bytes")
        return Output(content[: end.start()], int(end[1]))

    def _abort(self) -> None:
        connection = self._client.latest
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def list_devices(address: ServerAddress, seconds: float) -> dict[str, str]:
    """Return the state of each device by serial, or raise EnvironmentFailure (`setup`) if no server answers. Blocks."""
    try:
        return {found.serial: found.state for found in _AdbServerClient(address, seconds).list()}
    except (AdbError, OSError, ValueError) as error:
        text = f"no adb server answers at {address}; run `adb start-server` (`make system-deps` installs adb)"
        raise EnvironmentFailure(text, FailureClass.SETUP) from error


class _AdbConnection(AdbConnection):  # type: ignore[misc]  # adbutils has no types
    """A connection that never starts an adb server, which would outlive the run, and that closes without waiting."""

    def close(self) -> None:
        self.conn.close()

    def _safe_connect(self) -> socket.socket:
        connected: socket.socket = self._create_socket()
        return connected


class _AdbServerClient(AdbClient):  # type: ignore[misc]
    """A client of the server at one address; it ignores adb's environment variables."""

    def __init__(self, address: ServerAddress, seconds: float) -> None:
        super().__init__(address.host, address.port, seconds)
        self._seconds = seconds
        self._version: int | None = None
        self.latest: socket.socket | None = None

    def make_connection(self, timeout: float | None = None) -> Any:
        made = _AdbConnection(self.host, self.port)
        self.latest = made.conn
        self.latest.settimeout(timeout or self._seconds)
        return made

    def server_version(self) -> int:
        """The version of the server, requested once, though adbutils reads it for every call."""
        if self._version is None:
            self._version = int(super().server_version())
        return self._version


def _read_all(connection: socket.socket, deadline: float) -> bytes:
    received = bytearray()
    while True:
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        chunk = connection.recv(_CHUNK)
        if not chunk:
            return bytes(received)
        received += chunk
