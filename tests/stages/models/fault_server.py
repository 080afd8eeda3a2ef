"""A real server on loopback that speaks the OpenAI chat protocol and misbehaves as told.

It runs in a thread with an event loop of its own, so that a test may be synchronous, run one event loop, or many.
"""

import asyncio
import base64
import io
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web
from PIL import Image

from trajmill.schemas.geometry import Size


class Fault(StrEnum):
    NONE = "none"
    BUSY = "busy"  # 429
    UNAVAILABLE = "unavailable"  # 503
    INTERNAL = "internal"  # 500
    HANG = "hang"  # not a byte, until the client or the test gives up
    CUT = "cut"  # the connection is reset before the answer
    CUT_WITHIN = "cut_within"  # ... or within the body
    TRUNCATED = "truncated"  # a body that ends in the middle of its JSON, although its length is as announced
    WRONG_SCHEMA = "wrong_schema"  # JSON that is not the protocol's
    EMPTY_CHOICES = "empty_choices"
    NO_TEXT = "no_text"  # a choice whose message has no content
    UNEVEN_TOKENS = "uneven_tokens"  # a choice with other tokens than log probabilities
    ABORTED = "aborted"  # a choice that the server gave up half-way
    HUGE = "huge"  # a well-formed answer of ten megabytes
    SLOW = "slow"  # a body that trickles and never ends
    TOO_LONG = "too_long"  # 400: the context is too long
    UNKNOWN_MODEL = "unknown_model"  # 404, as for a model that was unloaded


class FaultReply(NamedTuple):
    fault: Fault = Fault.NONE
    retry_after: str | None = None
    text: str | None = None
    """Text of the answer where there is no fault; None lets the server's own rule write it."""


class Received(NamedTuple):
    body: dict[str, Any]
    authorization: str | None
    at: float
    """When, in seconds of the server's loop."""

    @property
    def pictures(self) -> list[Size]:
        """Sizes of its pictures, decoded."""
        urls = [
            block["image_url"]["url"]
            for message in self.body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "image_url"
        ]
        return [_decoded_size(url) for url in urls]


def _decoded_size(url: str) -> Size:
    head, _, data = url.partition(",")
    assert head.startswith("data:image/") and head.endswith(";base64")
    with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as image:
        image.load()
        return Size(*image.size)


@dataclass
class FaultServer:
    """What a running server does next, and what it has seen."""

    script: deque[FaultReply]
    """Answers to the next requests; after them all goes well."""
    models: tuple[str, ...] = ("tiny",)
    key: str = ""
    """API key that it asks for; empty for none."""
    capacity: int | None = None
    """Chat requests in flight over which it answers 429."""
    seconds: float = 0.0
    """Time that it takes over an answer."""
    writes: Callable[[dict[str, Any]], str] = lambda body: "fine"
    """Text of an answer without fault, from the request's body."""
    writes_samples: Callable[[dict[str, Any]], list[str]] | None = None
    """Texts of all samples of an answer without fault; None has the one that `writes` gives for each."""
    embeds: Callable[[str], list[float]] = lambda text: [float(len(text)), 1.0]
    port: int = 0
    received: list[Received] = field(default_factory=list)
    listings: int = 0
    """Times that it was asked for its models."""
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def running_server(
    script: Iterable[FaultReply | Fault] = (), *, port: int = 0, **options: Any
) -> Iterator[FaultServer]:
    """A server for as long as the block runs; port 0 takes a free one, `options` are fields of `FaultServer`."""
    replies = deque(FaultReply(reply) if isinstance(reply, Fault) else reply for reply in script)
    server, loop = FaultServer(replies, **options), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fault server")
    thread.start()
    try:
        runner = asyncio.run_coroutine_threadsafe(_start(server, port), loop).result(200)
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(200)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(200)
        loop.close()


async def _start(server: FaultServer, port: int) -> web.AppRunner:
    app = web.Application(client_max_size=2**28)
    app.router.add_post("/v1/chat/completions", partial(_chat, server))
    app.router.add_post("/v1/embeddings", partial(_embeddings, server))
    app.router.add_get("/v1/models", partial(_models, server))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
    server.port = runner.addresses[0][1]
    return runner


async def _models(server: FaultServer, request: web.Request) -> web.Response:
    server.listings += 1
    if (refusal := _refused(server, request)) is not None:
        return refusal
    return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in server.models]})


async def _received(server: FaultServer, request: web.Request) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(await request.read())
    server.received.append(Received(body, request.headers.get("Authorization"), asyncio.get_running_loop().time()))
    return body


async def _embeddings(server: FaultServer, request: web.Request) -> web.StreamResponse:
    body = await _received(server, request)
    if (refusal := _refused(server, request)) is not None:
        return refusal
    reply = server.script.popleft() if server.script else FaultReply()
    if reply.fault is not Fault.NONE:
        return await _answer(server, request, body, reply)
    data = [{"index": at, "embedding": server.embeds(text)} for at, text in enumerate(body["input"])]
    # Out of order, as servers may send them.
    return web.json_response({"object": "list", "data": data[::-1], "model": body["model"]})


async def _chat(server: FaultServer, request: web.Request) -> web.StreamResponse:
    body = await _received(server, request)
    server.in_flight += 1
    server.most_in_flight = max(server.most_in_flight, server.in_flight)
    try:
        if server.capacity is not None and server.in_flight > server.capacity:
            return _error(429, "too many requests", "0")
        if (refusal := _refused(server, request)) is not None:
            return refusal
        if body["model"] not in server.models:
            return _error(404, f"The model `{body['model']}` does not exist.")
        reply = server.script.popleft() if server.script else FaultReply()
        await asyncio.sleep(server.seconds)
        return await _answer(server, request, body, reply)
    finally:
        server.in_flight -= 1


def _refused(server: FaultServer, request: web.Request) -> web.Response | None:
    if server.key and request.headers.get("Authorization") != f"Bearer {server.key}":
        return _error(401, "Unauthorized")
    return None


def _error(status: int, message: str, retry_after: str | None = None) -> web.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    body = {"error": {"message": message, "type": "error", "code": status}}
    return web.json_response(body, status=status, headers=headers)


def chat_completion(texts: list[str], body: dict[str, Any]) -> dict[str, Any]:
    """An answer of the protocol with a sample per text, log probabilities where `body` asks for them."""
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
            "logprobs": _logprobs(text, body.get("top_logprobs", 0)) if body.get("logprobs") else None,
        }
        | ({"token_ids": [len(word) for word in text.split()]} if body.get("return_token_ids") else {})
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 100, "completion_tokens": 10 * len(texts), "total_tokens": 100 + 10 * len(texts)}
    return {"id": "chat-1", "object": "chat.completion", "model": body["model"], "choices": choices, "usage": usage}


def _logprobs(text: str, most: int) -> dict[str, Any]:
    def token(word: str) -> dict[str, Any]:
        best = [{"token": f"{word}{rank}", "logprob": -0.5 - rank} for rank in range(most)]
        return {"token": word, "logprob": -0.5, "bytes": None, "top_logprobs": best}

    return {"content": [token(word) for word in text.split()]}


async def _answer(
    server: FaultServer, request: web.Request, body: dict[str, Any], reply: FaultReply
) -> web.StreamResponse:
    match reply.fault:
        case Fault.NONE:
            return _fine(server, body, reply)
        case fault if fault in _STATUS:
            return _error(*_STATUS[fault], reply.retry_after)
        case fault if fault in _CHANGED:
            answer = chat_completion(["half of it"], body)
            answer["choices"][0] |= _CHANGED[fault]
            return web.json_response(answer)
        case Fault.HANG:
            await asyncio.Event().wait()
        case Fault.CUT:
            return _cut(request, web.Response())
        case Fault.CUT_WITHIN:
            response = await _begun(request, **{"Content-Length": "5000"})
            await response.write(json.dumps(chat_completion(["fine"], body)).encode()[:60])
            return _cut(request, response)
        case Fault.SLOW:
            response = await _begun(request)
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.02)
        case Fault.TRUNCATED:
            return _text(json.dumps(chat_completion(["fine"], body))[:-40])
        case Fault.WRONG_SCHEMA:
            return _text('{"choices": [{"text": "fine"}], "usage": "none"}')
        case Fault.EMPTY_CHOICES:
            return _text(json.dumps(chat_completion([], body)))
        case Fault.HUGE:
            return _text(json.dumps(chat_completion(["x" * 10_000_000], body)))
    raise AssertionError(f"no answer for {reply.fault}")


_STATUS = {
    Fault.BUSY: (429, "Rate limit reached"),
    Fault.UNAVAILABLE: (503, "Service unavailable"),
    Fault.INTERNAL: (500, "Internal server error"),
    Fault.TOO_LONG: (
        400,
        "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens.",
    ),
    Fault.UNKNOWN_MODEL: (404, "The model `tiny` does not exist."),
}
_CHANGED: dict[Fault, dict[str, Any]] = {
    Fault.NO_TEXT: {"message": {"role": "assistant", "content": None}},
    Fault.UNEVEN_TOKENS: {"token_ids": [1, 2, 3, 4]},
    Fault.ABORTED: {"finish_reason": "abort"},
}


def _fine(server: FaultServer, body: dict[str, Any], reply: FaultReply) -> web.Response:
    text = server.writes(body) if reply.text is None else reply.text
    texts = [text, *(f"{text} {sample}" for sample in range(1, body.get("n", 1)))]
    if server.writes_samples is not None:
        texts = server.writes_samples(body)
    answer = chat_completion(texts, body)
    # Samples out of order, as servers may send them.
    answer["choices"].reverse()
    return web.json_response(answer)


def _text(text: str) -> web.Response:
    return web.Response(text=text, content_type="application/json")


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return response


async def _begun(request: web.Request, **headers: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", **headers})
    await response.prepare(request)
    return response
