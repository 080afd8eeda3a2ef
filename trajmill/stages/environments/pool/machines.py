"""Lease machines that several runs may share: one environment of any process uses a machine at a time."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from time import monotonic
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, FailureClass

POLL_SECONDS = 0.2


class MachineState(NamedTuple):
    identity: str
    """A name that is equal in every process."""
    trouble: str = ""
    """Why it cannot be used, e.g. `offline`; empty if it can."""


class MachineLease(NamedTuple):
    name: str
    close: Callable[[], None]
    """Gives the machine back; a second call does nothing."""


class Machines:
    """Leases machines of one kind. Processes see each other's leases if they share a network namespace."""

    def __init__(self, kind: str, seconds: float, advice: str) -> None:
        """Wait at most `seconds` for a machine that another process uses; `advice` ends the error if none is free."""
        self._kind = kind
        self._advice = advice
        self._seconds = seconds
        self._own: set[str] = set()
        self._turns: dict[str, int] = {}

    async def lease(self, states_now: Callable[[], Awaitable[Mapping[str, MachineState]]]) -> MachineLease:
        """Lease the machine that was free longest; never waits for own ones. Raises EnvironmentFailure (`setup`)."""
        deadline = monotonic() + self._seconds
        while True:
            states = await states_now()
            ready = {name: state.identity for name, state in states.items() if not state.trouble}
            for name, identity in sorted(ready.items(), key=lambda each: self._turns.get(each[1], 0)):
                held = _hold(f"{self._kind} {identity}")
                if held is not None:
                    self._own.add(identity)
                    self._turns[identity] = max(self._turns.values(), default=0) + 1
                    giving_back = ExitStack()
                    giving_back.callback(self._own.discard, identity)
                    giving_back.callback(held.close)
                    return MachineLease(name, giving_back.close)
            if monotonic() > deadline or (ready and self._own.issuperset(ready.values())):
                reasons = [f"{name} is {state.trouble or 'in use'}" for name, state in states.items()]
                text = f"no {self._kind} is free: {', '.join(reasons) or 'none is connected'}; {self._advice}"
                raise EnvironmentFailure(text, FailureClass.SETUP)
            await asyncio.sleep(POLL_SECONDS)


def machine_address(host: str, port: int) -> str:
    """Resolve a host to `IP:PORT`; the name stays if it cannot be resolved. Blocks."""
    try:
        return f"{min(socket.gethostbyname_ex(host)[2])}:{port}"
    except OSError:
        return f"{host}:{port}"


def _hold(machine: str) -> socket.socket | None:
    """A socket that only one process can have for a machine, with an abstract address (Linux); None if it is held."""
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0trajmill {hashlib.blake2b(machine.encode(), digest_size=16).hexdigest()}")
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return held
