"""The client of one or more servers; each call makes a bounded number of attempts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
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
from trajmill.stages.models.openai_api.routing import Router, Server
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.wrapped import Vector


def request_body(request: ChatRequest, model: str, budget: PixelBudget) -> bytes:
    """Return a request as JSON, screens as data URLs within `budget`. Raises ModelFailure for a broken image."""

    def block(part: MessagePart) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        return {"type": "image_url", "image_url": {"url": sent_image(screen_of(part), budget, scale).data_url}}

    def content(parts: Sequence[MessagePart]) -> object:
        return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else [block(part) for part in parts]

    scale = request.image_scale
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

        Raises:
            ModelFailure: an image does not decode, the servers refuse the request (context too long, unknown model), or
                no attempt gave an answer; the message is one line that names the server.
        """
        return await self._asked(
            "chat/completions",
            lambda: self._body(request),
            lambda received: completion(received, request.n, self._spec.input_price, self._spec.output_price),
        )

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts (`/embeddings`), in their order. Raises ModelFailure as `complete` does."""

        async def body() -> bytes:
            return json.dumps({"model": self._spec.model, "input": list(texts)}).encode()

        return await self._asked("embeddings", body, lambda received: embeddings(received, len(texts)))

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
                received = await exchange(
                    connection.session, self._secrets, "POST", under(lease.server.url, path), body
                )
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
