"""Chooses the server of the next request: the one with the fewest requests in flight among those that answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from trajmill.stages.models.openai_api.exchange import FailureReason

_FAILURES_OF_THE_DEAD = 3
"""A server counts as dead after this many broken exchanges in succession; without a connection, at once."""


class Server:
    """A server and its congestion window, which bounds its requests in flight."""

    def __init__(self, url: str, most: int) -> None:
        self.url = url
        self.in_flight = 0
        self.turn = 0
        """Number of the last request that it got; servers that are equally busy take turns by it."""
        self.failures = 0
        """Broken exchanges since the last answer."""
        self.silent_until: float | None = None
        """Loop time until which a dead server gets no probe; None for a server that answers."""
        self.probe: asyncio.Task[None] | None = None
        self.epoch = 0
        """How often the window shrank."""
        self._most = self._window = float(most)

    @property
    def window(self) -> int:
        """Requests allowed at a time, at least one."""
        return int(self._window)

    def shrink(self, epoch: int) -> None:
        """Halve the window, because a request sent in `epoch` found the server busy.

        Requests that were in flight together fail together; only the first of them shrinks the window.
        """
        if epoch == self.epoch:
            self._window = max(1.0, self._window / 2)
            self.epoch += 1

    def grow(self) -> None:
        """Count an answer: a whole window of answers lets one more request in."""
        self._window = min(self._most, self._window + 1 / self._window)

    def revive(self) -> None:
        self.failures, self.silent_until = 0, None


class Lease(NamedTuple):
    """The right to send one request to a server; the caller gives it back with `release`."""

    server: Server
    epoch: int
    """Epoch of the server's window when the lease was given."""


class _Waiting(NamedTuple):
    place: asyncio.Future[Lease]
    avoid: Server | None


class Router:
    """Gives out leases of servers, first come first served; belongs to one event loop.

    A dead server gets no requests while another one answers; a probe asks it from time to time whether it is back.
    When all servers are dead, requests still go to them, and the callers' retries serve as probes.
    """

    def __init__(
        self, urls: Sequence[str], most: int, probe_seconds: float, answers: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._servers = [Server(url, most) for url in urls]
        self._probe_seconds = probe_seconds
        self._answers = answers
        self._waiting: deque[_Waiting] = deque()
        self._turns = 0

    async def lease(self, avoid: Server | None = None) -> Lease:
        """Wait for a lease; another server than `avoid` is preferred."""
        now = asyncio.get_running_loop().time()
        for server in self._servers:
            if server.silent_until is not None and server.silent_until <= now and server.probe is None:
                server.probe = asyncio.create_task(self._probe(server))
        if not self._waiting and (lease := self._free_lease(avoid)) is not None:
            return lease
        waiting = _Waiting(asyncio.get_running_loop().create_future(), avoid)
        self._waiting.append(waiting)
        try:
            return await waiting.place
        except asyncio.CancelledError:
            if waiting.place.done() and not waiting.place.cancelled():
                self.release(waiting.place.result(), None)
            raise

    def release(self, lease: Lease, reason: FailureReason | None) -> None:
        """Give a lease back with the reason why its exchange failed; None if this says nothing about the server."""
        server = lease.server
        server.in_flight -= 1
        if reason is FailureReason.BUSY:
            server.shrink(lease.epoch)
        if reason is FailureReason.UNREACHABLE:
            self._mark_dead(server)
        elif reason is FailureReason.BROKEN:
            server.failures += 1
            if server.failures >= _FAILURES_OF_THE_DEAD:
                self._mark_dead(server)
        elif reason is not None:
            server.revive()
        self._serve_waiting()

    def answered(self, server: Server) -> None:
        server.grow()
        server.revive()

    def another_answers(self, server: Server) -> bool:
        """Return whether a server other than this one is not known to be dead."""
        return any(other.silent_until is None for other in self._servers if other is not server)

    async def close(self) -> None:
        probes = [server.probe for server in self._servers if server.probe is not None]
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    def _free_lease(self, avoid: Server | None) -> Lease | None:
        alive = [server for server in self._servers if server.silent_until is None] or self._servers
        free = [server for server in alive if server.in_flight < server.window]
        server = min(free, key=lambda server: (server is avoid, server.in_flight, server.turn), default=None)
        if server is None:
            return None
        server.turn = self._turns = self._turns + 1
        server.in_flight += 1
        return Lease(server, server.epoch)

    def _serve_waiting(self) -> None:
        while self._waiting:
            waiting = self._waiting[0]
            if not waiting.place.done():
                lease = self._free_lease(waiting.avoid)
                if lease is None:
                    return
                waiting.place.set_result(lease)
            self._waiting.popleft()

    def _mark_dead(self, server: Server) -> None:
        server.silent_until = asyncio.get_running_loop().time() + self._probe_seconds

    async def _probe(self, server: Server) -> None:
        try:
            if await self._answers(server.url):
                server.revive()
                self._serve_waiting()
            else:
                self._mark_dead(server)
        finally:
            server.probe = None
