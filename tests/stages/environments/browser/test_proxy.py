import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from trajmill.schemas import actions as act
from trajmill.stages.environments.browser.input import playwright_calls
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


async def test_everything_else_is_refused_and_noted(site: str) -> None:
    for request_line, refused in (
        ("GET http://localhost:8999/x HTTP/1.1", "localhost:8999"),
        ("GET http://127.0.0.1:1/x HTTP/1.1", "127.0.0.1:1"),
        ("CONNECT example.org:443 HTTP/1.1", "example.org:443"),
        ("GET file:///etc/hosts HTTP/1.1", "file:///etc/hosts"),
        ("GET http://[::1 HTTP/1.1", "http://[::1"),
        ("nonsense", ""),
    ):
        async with fenced(site) as (allow_list, proxy):
            assert (await through(proxy, request_line)).startswith(b"HTTP/1.1 403")
            assert allow_list.refused == (refused,)


def called(action: act.Action, scale: int = 1) -> list[tuple[object, ...]]:
    """The calls of an action, each as its method, arguments and values of options."""
    calls = playwright_calls(action, scale)
    return [(f"{call.target}.{call.method}", *call.arguments, *call.options.values()) for call in calls]


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        (act.PressKeys(keys=("ctrl", "Return")), [("keyboard.press", "Control+Enter")]),
        (act.PressKeys(keys=("ctrl", "no-such-key")), []),
        (act.SystemButton(button="Back"), [("page.go_back",)]),
        (act.DragTo(x=20, y=40), [("mouse.down",), ("mouse.move", 20, 40, 5), ("mouse.up",)]),
        (act.HorizontalScroll(x=2, y=4, clicks=2), [("mouse.move", 2, 4), ("mouse.wheel", 200, 0)]),
        (act.Interact(text="log in"), []),
        (act.Wait(seconds=-5), [("page.wait_for_timeout", 0)]),
    ],
)
def test_an_action_is_a_list_of_calls(action: act.Action, calls: list[tuple[object, ...]]) -> None:
    assert called(action) == calls


def test_positions_are_in_pixels_of_the_screenshot_and_what_a_model_asks_for_is_bounded() -> None:
    assert called(act.Click(x=30, y=60, count=1000), scale=3) == [("mouse.click", 10, 20, "left", 3)]
    assert called(act.LongPress(x=1, y=1, seconds=1e9))[0][-1] == 5000
