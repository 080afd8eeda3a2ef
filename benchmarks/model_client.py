"""What the client for OpenAI-compatible servers costs per call, against bare loops of HTTP clients on the same server.

Run: `python -m benchmarks.model_client`. The server, in a process of its own on loopback, answers at once with the same
bytes, so that whatever time there is belongs to the client and to the server's own HTTP. Prints calls per second and
the client's CPU microseconds per call with 1, 64 and 512 requests in flight, each the median of turns taken by all
clients in one run, the ratio to bare httpx, and the memory before and after. The `openai` package stands in the table
where it is installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import httpx
from aiohttp import web

from benchmarks.drawing import form_screen
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.environments.simulated.drawing.draw import draw
from trajmill.stages.models.base import ChatMessage, ChatRequest, MessagePart
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec

_IN_FLIGHT = {1: 200, 64: 640, 512: 1_024}
"""Requests in flight, and calls per turn."""
_TURNS = 3
_SYSTEM, _USER = "s" * 1_500, "u" * 2_500
_MESSAGES = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
_BODY = {"model": "m", "messages": _MESSAGES, "max_tokens": 512, "temperature": 0.0, "seed": 0}
_REQUEST = ChatRequest("policy", (ChatMessage("system", (_SYSTEM,)), ChatMessage("user", (_USER,))))
_ANSWER = json.dumps(
    {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 60}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960},
    }
).encode()

Call = Callable[[], Awaitable[object]]
Client = Callable[[str, int], AbstractAsyncContextManager[Call]]


class _Turn(NamedTuple):
    """One client's calls in one turn."""

    per_second: float
    cpu_us: float
    """CPU microseconds of this process per call."""


def main() -> None:
    """Start the server, let the clients take turns, print the tables."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        asyncio.run(_measure(f"http://127.0.0.1:{ours.recv()}/v1"))
    finally:
        server.terminate()
        server.join()


async def _measure(url: str) -> None:
    clients: dict[str, Client] = {"bare httpx": _httpx, "bare aiohttp": _aiohttp, "OpenAiModel": _model}
    if importlib.util.find_spec("openai"):
        clients["openai package"] = _sdk
    print("client          in flight   calls/s   CPU us/call   of bare httpx")
    for in_flight, calls in _IN_FLIGHT.items():
        turns: dict[str, list[_Turn]] = {name: [] for name in clients}
        for _ in range(_TURNS):
            for name, client in clients.items():
                async with client(url, in_flight) as call:
                    turns[name].append(await _turn(call, calls, in_flight))
        base = statistics.median(turn.per_second for turn in turns["bare httpx"])
        for name, taken in turns.items():
            rate = statistics.median(turn.per_second for turn in taken)
            cpu = statistics.median(turn.cpu_us for turn in taken)
            print(f"{name:<16}{in_flight:>9}{rate:>10.0f}{cpu:>14.0f}{rate / base:>16.2f}", flush=True)
    await _memory(url)
    await _pictures(url)


async def _turn(call: Call, calls: int, in_flight: int) -> _Turn:
    await _drive(call, in_flight, in_flight)
    start, cpu = time.perf_counter(), time.process_time()
    await _drive(call, calls, in_flight)
    return _Turn(calls / (time.perf_counter() - start), (time.process_time() - cpu) / calls * 1e6)


async def _drive(call: Call, calls: int, in_flight: int) -> None:
    numbers = iter(range(calls))

    async def caller() -> None:
        for _ in numbers:
            await call()

    await asyncio.gather(*(caller() for _ in range(in_flight)))


async def _memory(url: str) -> None:
    print("\nOpenAiModel, 64 in flight   calls so far   resident MiB")
    async with _model(url, 64) as call:
        for so_far in range(0, 12_000, 2_000):
            print(f"{so_far:>41,}{_resident_mib():>15.1f}", flush=True)
            await _drive(call, 2_000, 64)


async def _pictures(url: str) -> None:
    size = Size(720, 1280)
    encoded = draw(form_screen(1))
    print(f"\nOpenAiModel with a screenshot of {size.width}x{size.height}   calls/s   CPU ms/call")
    for name, family in (("as it is", "any"), ("resized for Qwen3-VL", "qwen3-vl")):
        request = _asking("Look.", ScreenHandle("s-1", size, lambda: encoded))
        async with _asked(url, 16, request, family) as call:
            turn = await _turn(call, 100, 16)
        print(f"{name:<47}{turn.per_second:>7.0f}{turn.cpu_us / 1000:>14.2f}", flush=True)


def _asking(*parts: MessagePart) -> ChatRequest:
    return ChatRequest("policy", (ChatMessage("user", parts),))


def _model(url: str, in_flight: int) -> AbstractAsyncContextManager[Call]:
    return _asked(url, in_flight, _REQUEST, "any")


@asynccontextmanager
async def _asked(url: str, in_flight: int, request: ChatRequest, family: str) -> AsyncIterator[Call]:
    model = OpenAiModel(OpenAiSpec(urls=(url,), model="m", family=family, max_in_flight=in_flight))
    try:
        yield lambda: model.complete(request)
    finally:
        await model.close()


@asynccontextmanager
async def _httpx(url: str, in_flight: int) -> AsyncIterator[Call]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=120) as client:

        async def call() -> object:
            return (await client.post(f"{url}/chat/completions", json=_BODY)).json()["choices"][0]["message"]["content"]

        yield call


@asynccontextmanager
async def _aiohttp(url: str, in_flight: int) -> AsyncIterator[Call]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:

        async def call() -> object:
            async with session.post(f"{url}/chat/completions", json=_BODY) as response:
                return json.loads(await response.read())["choices"][0]["message"]["content"]

        yield call


@asynccontextmanager
async def _sdk(url: str, in_flight: int) -> AsyncIterator[Call]:
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=0)
    transport: Any = openai.DefaultAioHttpClient(limits=limits)
    async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0, http_client=transport) as client:
        messages: Any = _MESSAGES

        async def call() -> object:
            answer = await client.chat.completions.create(
                model="m", messages=messages, max_tokens=512, temperature=0.0, seed=0
            )
            return answer.choices[0].message.content

        yield call


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def _serve(port: Connection) -> None:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=_ANSWER, content_type="application/json")

    async def serve() -> None:
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        port.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
