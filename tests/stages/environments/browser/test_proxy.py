"""The way to the network, without a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from trajmill.stages.environments.browser.proxy import AllowListProxy, HostPort, host_port_of

T = TypeVar("T")


async def through(proxy: str, request: bytes) -> bytes:
    """All that the proxy answers to a request."""
    host = host_port_of(proxy)
    assert host is not None
    reader, writer = await asyncio.open_connection(host.host, host.port)
    writer.write(request)
    answer = await reader.read(-1)
    writer.close()
    return answer


def fenced(site: str, most_bytes: int, work: Callable[[AllowListProxy, str], Awaitable[T]]) -> T:
    async def run() -> T:
        allow_list = AllowListProxy(most_bytes)
        host = host_port_of(site)
        assert host is not None
        allow_list.allow(frozenset({host}))
        proxy = await allow_list.open()
        try:
            return await work(allow_list, proxy)
        finally:
            await allow_list.close()
            await allow_list.close()

    return asyncio.run(run())


def test_what_is_allowed_passes_and_every_answer_ends_its_connection(site: str) -> None:
    async def work(allow_list: AllowListProxy, proxy: str) -> bytes:
        return await through(proxy, f"GET {site}/next HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n".encode())

    answer = fenced(site, 10_000, work)
    assert answer.startswith(b"HTTP/1.0 200")
    assert b"Connection: close" in answer
    assert b"Arrived" in answer


@pytest.mark.parametrize(
    ("request_line", "refused"),
    [
        ("GET http://localhost:8999/x HTTP/1.1", "localhost:8999"),
        ("GET http://127.0.0.1:1/x HTTP/1.1", "127.0.0.1:1"),
        ("CONNECT example.org:443 HTTP/1.1", "example.org:443"),
        ("GET file:///etc/hosts HTTP/1.1", "file:///etc/hosts"),
        ("GET http://[::1 HTTP/1.1", "http://[::1"),
        ("nonsense", ""),
    ],
)
def test_everything_else_is_refused_and_noted(site: str, request_line: str, refused: str) -> None:
    async def work(allow_list: AllowListProxy, proxy: str) -> tuple[bytes, tuple[str, ...]]:
        return await through(proxy, f"{request_line}\r\n\r\n".encode()), allow_list.refused

    answer, noted = fenced(site, 10_000, work)
    assert answer.startswith(b"HTTP/1.1 403")
    assert noted == (refused,)


def test_an_episode_receives_no_more_than_it_may(site: str) -> None:
    async def work(allow_list: AllowListProxy, proxy: str) -> tuple[bytes, tuple[str, ...]]:
        return await through(proxy, f"GET {site}/ HTTP/1.1\r\n\r\n".encode()), allow_list.refused

    answer, noted = fenced(site, 100, work)
    assert b"Shop" not in answer
    assert noted == ("more than 100 bytes",)


def test_what_is_allowed_but_not_there_is_said_to_be_so() -> None:
    async def work(allow_list: AllowListProxy, proxy: str) -> bytes:
        allow_list.allow(frozenset({HostPort("127.0.0.1", 9)}))
        return await through(proxy, b"GET http://127.0.0.1:9/ HTTP/1.1\r\n\r\n")

    assert fenced("http://127.0.0.1:9", 100, work).startswith(b"HTTP/1.1 502")
