"""A proxy on loopback through which a browser context reaches only the hosts on an allow-list.

Unlike the browser's own interception, it gets every request, also those after a redirect and those of workers and
sockets. It forwards plain HTTP with one request per connection; for everything else it opens a tunnel.
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


class HostPort(NamedTuple):
    host: str
    port: int


def host_port_of(url: str) -> HostPort | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return HostPort(parts.hostname, port) if parts.scheme in _PORTS and parts.hostname and port else None


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class AllowListProxy:
    def __init__(self, most_bytes: int) -> None:
        """Allow nothing yet; a context receives at most `most_bytes` between two calls of `allow`."""
        self._most_bytes = most_bytes
        self._allowed: frozenset[HostPort] = frozenset()
        self._received = 0
        self._refused: list[str] = []
        self.unreachable: dict[HostPort | None, str] = {}
        """Allowed hosts that did not answer, and why; `allow` forgets them."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(self._refused)

    def allow(self, hosts: frozenset[HostPort]) -> None:
        self._allowed, self._received, self._refused, self.unreachable = hosts, 0, [], {}

    async def open(self) -> str:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LONGEST_HEAD)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
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
            pass  # `close` cancels; asyncio would log it as an error of the server
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, _, headers = head.partition("\r\n")
        method, target = [*line.split(" "), "", ""][:2]
        host = host_port_of(f"https://{target}") if method == "CONNECT" else host_port_of(target)
        if host is None or host not in self._allowed:
            self._note(f"{host.host}:{host.port}" if host else target[:200])
            writer.write(_answer("403 Forbidden", "This address is not on the allow-list of the task."))
            await writer.drain()
            return
        try:
            async with asyncio.timeout(_SECONDS_TO_CONNECT):
                far_reader, far_writer = await asyncio.open_connection(host.host, host.port)
        except (OSError, TimeoutError) as error:
            self.unreachable[host] = " ".join(str(error).split()) or "no connection"
            writer.write(_answer("502 Bad Gateway", f"{host.host} cannot be reached"))
            await writer.drain()
            return
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                # With the path instead of the whole URL.
                parts = urlsplit(target)
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                far_writer.write(_closing(f"{method} {path} HTTP/1.1", headers))
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
        upwards = asyncio.create_task(_copy(reader, far_writer))
        try:
            if one_answer:
                line, _, headers = (await far_reader.readuntil(b"\r\n\r\n")).decode("latin-1").partition("\r\n")
                writer.write(_closing(line, headers))
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

    def _note(self, what: str) -> None:
        if len(self._refused) < _MOST_REFUSED:
            self._refused.append(what)


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


def _closing(line: str, headers: str) -> bytes:
    kept = [each for each in headers.split("\r\n") if each and not each.lower().startswith(_HOP_BY_HOP)]
    return "\r\n".join([line, *kept, "Connection: close", "", ""]).encode("latin-1")


def _answer(status: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
