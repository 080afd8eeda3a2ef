"""What a browser context may reach: a proxy on loopback that lets through what is on an allow-list.

A proxy sees every request, also those after a redirect and those of workers and sockets, which the browser's own
interception does not. Plain HTTP is passed on one request per connection; everything else is a tunnel to an
allowed host and port.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_LONGEST_HEAD = 64 * 1024
_CHUNK = 64 * 1024
_SECONDS_TO_CONNECT = 10.0
_MOST_REFUSED = 100
_HOP_BY_HOP = ("connection:", "proxy-connection:", "keep-alive:")


class Place(NamedTuple):
    """A host and a port."""

    host: str
    port: int


def place_of(url: str) -> Place | None:
    """Where a URL leads, None if it is not one of the web."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return Place(parts.hostname, port) if parts.scheme in _PORTS and parts.hostname and port else None


class Fence:
    """The proxy of one context; its allow-list may change from episode to episode."""

    def __init__(self, most_bytes: int) -> None:
        """Let nothing through yet.

        Args:
            most_bytes: how much a context may receive between two calls of `allow`.
        """
        self._most_bytes = most_bytes
        self._allowed: frozenset[Place] = frozenset()
        self._received = 0
        self._refused: list[str] = []
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def refused(self) -> tuple[str, ...]:
        """What was asked for and not let through since the last `allow`, as `host:port`; the first hundred."""
        return tuple(self._refused)

    def allow(self, places: frozenset[Place]) -> None:
        """Let only these through from now on, and forget what was refused."""
        self._allowed, self._received, self._refused = places, 0, []

    async def open(self) -> str:
        """Start listening; returns the proxy's address."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LONGEST_HEAD)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Stop listening and cut every connection; closing twice is fine."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for connection in tuple(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # by `close`; asyncio would otherwise log it as an error of the server
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, _, headers = head.partition("\r\n")
        method, target = [*line.split(" "), "", ""][:2]
        place = place_of(f"https://{target}") if method == "CONNECT" else place_of(target)
        if place is None or place not in self._allowed:
            await self._refuse(writer, f"{place.host}:{place.port}" if place else target[:200])
            return
        try:
            async with asyncio.timeout(_SECONDS_TO_CONNECT):
                far_reader, far_writer = await asyncio.open_connection(place.host, place.port)
        except (OSError, TimeoutError):
            writer.write(_answer("502 Bad Gateway", f"{place.host} cannot be reached"))
            await writer.drain()
            return
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far_writer.write(_forwarded(method, target, headers))
            await self._relay(reader, writer, far_reader, far_writer, one_answer=method != "CONNECT")
        finally:
            far_writer.close()

    async def _relay(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        far_reader: StreamReader,
        far_writer: StreamWriter,
        one_answer: bool,
    ) -> None:
        """Pass bytes both ways until the far end is done."""
        upwards = asyncio.create_task(_copy(reader, far_writer))
        try:
            if one_answer:
                writer.write(_closing(await far_reader.readuntil(b"\r\n\r\n")))
            while data := await far_reader.read(_CHUNK):
                self._received += len(data)
                if self._received > self._most_bytes:
                    self._note(f"more than {self._most_bytes} bytes")
                    return
                writer.write(data)
                await writer.drain()
        finally:
            upwards.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await upwards

    async def _refuse(self, writer: StreamWriter, what: str) -> None:
        self._note(what)
        writer.write(_answer("403 Forbidden", "This address is not on the allow-list of the task."))
        await writer.drain()

    def _note(self, what: str) -> None:
        if len(self._refused) < _MOST_REFUSED:
            self._refused.append(what)


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


def _forwarded(method: str, target: str, headers: str) -> bytes:
    """The head of a request as the far end wants it: with its path alone, and the only one of its connection."""
    parts = urlsplit(target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return f"{method} {path} HTTP/1.1\r\n{_one_of_a_kind(headers)}".encode("latin-1")


def _closing(head: bytes) -> bytes:
    """The head of an answer, saying that the connection ends with it."""
    line, _, headers = head.decode("latin-1").partition("\r\n")
    return f"{line}\r\n{_one_of_a_kind(headers)}".encode("latin-1")


def _one_of_a_kind(headers: str) -> str:
    kept = [line for line in headers.split("\r\n") if line and not line.lower().startswith(_HOP_BY_HOP)]
    return "\r\n".join([*kept, "Connection: close", "", ""])


def _answer(status: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
