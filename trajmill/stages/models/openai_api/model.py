"""The client of one or more servers, and the choice of the server of each request; attempts are bounded."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import aiohttp

from trajmill.schemas.coordinates import CoordinateFrame, PixelBudget
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.secrets import Secrets
from trajmill.stages.models.base import MOST_SEED, ChatRequest, Completion, MessagePart, screen_of
from trajmill.stages.models.images import sent_image
from trajmill.stages.models.openai_api.exchange import (
    ExchangeFailure,
    FailureReason,
    backoff_seconds,
    completion,
    embeddings,
    exchange,
    is_there,
    open_session,
    reason_for_no_answer,
    shown,
    under,
)
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.wrapped import Vector


def request_body(request: ChatRequest, model: str, budget: PixelBudget) -> bytes:
    """Return a request as JSON, screens as data URLs within `budget`. Raises ModelFailure for a broken image."""

    def block(part: MessagePart) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        image = sent_image(screen_of(part), budget, request.image_scale)
        url = f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"  # RFC 2397
        return {"type": "image_url", "image_url": {"url": url}}

    def content(parts: Sequence[MessagePart]) -> object:
        return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else [block(part) for part in parts]

    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": message.role, "content": content(message.parts)} for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed % MOST_SEED,
        "n": request.n,
    }
    if request.with_tokens:
        body |= {"logprobs": True, "return_token_ids": True}
    if request.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    if request.answer_schema:
        schema = {"name": "answer", "schema": json.loads(request.answer_schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return json.dumps(body, separators=(",", ":")).encode()


AnswerT = TypeVar("AnswerT")


class _Connection(NamedTuple):
    loop: asyncio.AbstractEventLoop
    session: aiohttp.ClientSession
    router: Router


class OpenAiModel:
    """A `ChatModel`, or an `EmbeddingModel`, at one or more OpenAI-compatible servers.

    It can be used in one event loop after another, since it opens new connections in each, but not in two at a time.
    """

    def __init__(self, spec: OpenAiSpec, api_key: str = "", secrets: Secrets | None = None) -> None:
        self._spec = spec
        self._api_key = api_key
        self._secrets = secrets or Secrets([api_key])
        self._family = spec.vision_family
        self._connection: _Connection | None = None

    @property
    def version(self) -> str:
        return self._spec.model

    @property
    def several_answers(self) -> bool:
        return self._spec.several_answers

    def frame(self, screen: Size) -> CoordinateFrame:
        return self._family.frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request; tries at most `attempts` times.

        Raises ModelFailure if an image does not decode, the servers refuse the request (context too long, unknown
        model), or no attempt gave an answer; the message is one line that names the server.
        """
        input_price, output_price = self._spec.input_price, self._spec.output_price
        read = partial(completion, samples=request.n, input_price=input_price, output_price=output_price)
        return await self._asked("chat/completions", partial(self._body, request), read)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts (`/embeddings`), in their order. Raises ModelFailure as `complete` does."""

        async def body() -> bytes:
            return json.dumps({"model": self._spec.model, "input": list(texts)}).encode()

        return await self._asked("embeddings", body, partial(embeddings, texts=len(texts)))

    async def _asked(
        self, path: str, make_body: Callable[[], Awaitable[bytes]], read: Callable[[bytes], AnswerT]
    ) -> AnswerT:
        connection = await self._connected()
        body: bytes | None = None
        avoid: Server | None = None
        for attempt in range(1, self._spec.attempts + 1):
            lease = await connection.router.lease(avoid)
            reason: FailureReason | None = None
            try:
                # The body is made after a server is assigned, so that waiting callers keep no images in memory.
                body = body or await make_body()
                url = under(lease.server.url, path)
                received = await exchange(connection.session, self._secrets, "POST", url, body)
                connection.router.answered(lease.server)
                return read(received)
            except ExchangeFailure as failure:
                reason, avoid = failure.reason, lease.server
                wait = self._wait(connection.router, lease.server, attempt, failure)
            finally:
                connection.router.release(lease, reason)
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def check(self) -> None:
        """Raise BadInputError unless a server answers, and every server that answers serves the model."""
        urls = self._spec.addresses
        connection = await self._connected()
        reasons = await asyncio.gather(
            *(reason_for_no_answer(connection.session, self._secrets, url, self.version) for url in urls)
        )
        if all(reasons):
            raise BadInputError(f"no model server answers: {reasons[0]}; start it or correct its URL")

    async def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.loop is asyncio.get_running_loop():
                await connection.router.close()
            await connection.session.close()

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._connection is not None and self._connection.loop is not loop:
            await self.close()
        if self._connection is None:
            session = open_session(self._spec, self._api_key)
            router = Router(
                self._spec.addresses,
                self._spec.max_in_flight,
                self._spec.probe_seconds,
                lambda url: is_there(session, self._secrets, url),
            )
            self._connection = _Connection(loop, session, router)
        return self._connection

    async def _body(self, request: ChatRequest) -> bytes:
        arguments = (request, self._spec.model, self._family.budget)
        if all(isinstance(part, str) for message in request.messages for part in message.parts):
            return request_body(*arguments)
        return await asyncio.to_thread(request_body, *arguments)  # images take time to decode and encode

    def _wait(self, router: Router, server: Server, attempt: int, failure: ExchangeFailure) -> float:
        """Return the seconds until the next attempt. Raises ModelFailure after the last one."""
        where, longest = f"{shown(server.url)} ({self.version})", self._spec.longest_wait_seconds
        if failure.reason is FailureReason.REFUSED:
            raise ModelFailure(f"{where}: {failure}") from None
        if attempt == self._spec.attempts:
            raise ModelFailure(f"{where}: {failure}; given up after {attempt} attempts") from None
        if failure.retry_after is not None and failure.retry_after > longest:
            raise ModelFailure(f"{where}: {failure}; asks to wait {failure.retry_after:.0f} s") from None
        if failure.reason is FailureReason.UNREACHABLE and router.another_answers(server):
            return 0.0
        backoff = backoff_seconds(attempt, self._spec.first_wait_seconds, longest)
        return backoff if failure.retry_after is None else failure.retry_after + backoff / 2


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
