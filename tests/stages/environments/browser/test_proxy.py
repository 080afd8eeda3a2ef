import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from trajmill.stages.environments.browser.proxy import AllowListProxy, HostPort, host_port_of


@asynccontextmanager
async def fenced(site: str, most_bytes: int = 10_000) -> AsyncIterator[tuple[AllowListProxy, HostPort]]:
    """A proxy that allows a site and that many bytes, and its address."""
    allow_list, allowed = AllowListProxy(most_bytes), host_port_of(site)
    assert allowed is not None
    allow_list.allow(frozenset({allowed}))
    address = host_port_of(await allow_list.open())
    assert address is not None
    yield allow_list, address
    await allow_list.close()
    await allow_list.close()


async def through(proxy: HostPort, request: str) -> bytes:
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    writer.write(f"{request}\r\n\r\n".encode())
    answer = await reader.read(-1)
    writer.close()
    return answer


async def test_what_is_allowed_passes_within_its_bytes_and_every_answer_ends_its_connection(site: str) -> None:
    async with fenced(site) as (_, proxy):
        answer = await through(proxy, f"GET {site}/next HTTP/1.1\r\nHost: x\r\nConnection: keep-alive")
    assert answer.startswith(b"HTTP/1.0 200")
    assert b"Connection: close" in answer and b"Arrived" in answer
    async with fenced(site, 100) as (allow_list, proxy):
        assert b"Shop" not in await through(proxy, f"GET {site}/ HTTP/1.1")
        assert allow_list.refused == ("more than 100 bytes",)
    async with fenced("http://127.0.0.1:9") as (_, proxy):
        assert (await through(proxy, "GET http://127.0.0.1:9/ HTTP/1.1")).startswith(b"HTTP/1.1 502")


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
async def test_everything_else_is_refused_and_noted(site: str, request_line: str, refused: str) -> None:
    async with fenced(site) as (allow_list, proxy):
        assert (await through(proxy, request_line)).startswith(b"HTTP/1.1 403")
        assert allow_list.refused == (refused,)
