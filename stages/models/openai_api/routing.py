"""Which server gets the next request: the one with the fewest in flight among those that answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from trajmill.stages.models.openai_api.congestion import CongestionWindow
from trajmill.stages.models.openai_api.failure import FailureReason

_FAILURES_OF_THE_DEAD = 3
"""Broken exchanges in a row after which a server counts as dead; without any connection it does at once."""


class Server:
    """One base URL, and what is known of it."""

    def __init__(self, url: str, most: int) -> None:
        self.url = url
        self.window = CongestionWindow(most)
        self.in_flight = 0
        self.turn = 0
        """Number of the last request that it got, so that equals take turns."""
        self.failures = 0
        """Broken exchanges since the last answer."""
        self.silent_until: float | None = None
        """Loop time until which a dead server is left alone; None for one that answers."""
        self.probe: asyncio.Task[None] | None = None


class Lease(NamedTuple):
    """A place at a server, to be given back."""

    server: Server
    epoch: int
    """Of the server's window when the place was given."""


class _Waiting(NamedTuple):
    place: asyncio.Future[Lease]
    avoid: Server | None


class Router:
    """Hands out places at servers, first come first served; belongs to one event loop.

    A dead server gets no requests while another one answers, and is asked now and then whether it is back. Where all
    are dead, requests go to them all the same: the callers' retries are then the questions.
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
        """Wait for a place, at another server than `avoid` where one has a place."""
        self._probe_the_dead()
        if not self._waiting and (server := self._free(avoid)) is not None:
            return self._take(server)
        waiting = _Waiting(asyncio.get_running_loop().create_future(), avoid)
        self._waiting.append(waiting)
        try:
            return await waiting.place
        except asyncio.CancelledError:
            if waiting.place.done() and not waiting.place.cancelled():
                self.release(waiting.place.result(), None)
            raise

    def release(self, lease: Lease, reason: FailureReason | None) -> None:
        """Give a place back, and tell how the exchange went that it was used for; None where nothing was learnt."""
        server = lease.server
        server.in_flight -= 1
        if reason is FailureReason.BUSY:
            server.window.shrink(lease.epoch)
        if reason is FailureReason.UNREACHABLE:
            self._bury(server)
        elif reason is FailureReason.BROKEN:
            server.failures += 1
            if server.failures >= _FAILURES_OF_THE_DEAD:
                self._bury(server)
        elif reason is not None:
            self._revive(server)
        self._serve_waiting()

    def answered(self, server: Server) -> None:
        """Note that a server gave an answer."""
        server.window.grow()
        self._revive(server)

    def another_answers(self, server: Server) -> bool:
        """Whether a server other than this one is not known to be dead."""
        return any(other.silent_until is None for other in self._servers if other is not server)

    async def close(self) -> None:
        """Stop asking for dead servers."""
        probes = [server.probe for server in self._servers if server.probe is not None]
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    def _free(self, avoid: Server | None) -> Server | None:
        alive = [server for server in self._servers if server.silent_until is None] or self._servers
        free = [server for server in alive if server.in_flight < server.window.size]
        return min(free, key=lambda server: (server is avoid, server.in_flight, server.turn), default=None)

    def _take(self, server: Server) -> Lease:
        self._turns += 1
        server.turn = self._turns
        server.in_flight += 1
        return Lease(server, server.window.epoch)

    def _serve_waiting(self) -> None:
        while self._waiting:
            waiting = self._waiting[0]
            if not waiting.place.done():
                server = self._free(waiting.avoid)
                if server is None:
                    return
                waiting.place.set_result(self._take(server))
            self._waiting.popleft()

    def _bury(self, server: Server) -> None:
        server.silent_until = asyncio.get_running_loop().time() + self._probe_seconds

    def _revive(self, server: Server) -> None:
        server.failures = 0
        server.silent_until = None

    def _probe_the_dead(self) -> None:
        now = asyncio.get_running_loop().time()
        for server in self._servers:
            if server.silent_until is not None and server.silent_until <= now and server.probe is None:
                server.probe = asyncio.create_task(self._probe(server))

    async def _probe(self, server: Server) -> None:
        try:
            if await self._answers(server.url):
                self._revive(server)
                self._serve_waiting()
            else:
                self._bury(server)
        finally:
            server.probe = None
