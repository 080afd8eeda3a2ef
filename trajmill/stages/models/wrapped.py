"""Models that wrap another model: with a cache of answers, another version, kept loaded, or a row for each call."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol, runtime_checkable

from diskcache import Cache, JSONDisk, Timeout  # type: ignore[import-untyped]
from diskcache.core import MODE_PICKLE  # type: ignore[import-untyped]
from pydantic import TypeAdapter

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.text import storable
from trajmill.stages.models.base import (
    ChatMessage,
    ChatModel,
    ChatRequest,
    Completion,
    forget_answer,
    gives_several,
    screen_of,
)


class WrappedModel:
    """A `ChatModel` that passes every call to another one.

    `version` is stored in rows, e.g. the run's name of a policy; empty for the version of the other model.
    """

    def __init__(self, model: ChatModel, version: str = "") -> None:
        self._model = model
        self._version = version

    @property
    def unwrapped(self) -> ChatModel:
        """The other model, or what it wraps itself."""
        return self._model.unwrapped if isinstance(self._model, WrappedModel) else self._model

    @property
    def version(self) -> str:
        return self._version or self._model.version

    @property
    def several_answers(self) -> bool:
        return gives_several(self._model)

    def frame(self, screen: Size) -> CoordinateFrame:
        return self._model.frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        return await self._model.complete(request)

    async def forget(self, request: ChatRequest) -> None:
        await forget_answer(self._model, request)

    async def close(self) -> None:
        await self._model.close()


class KeptLoadedModel(WrappedModel):
    """A `ChatModel` that stays loaded when it is closed, for the next shard of this worker."""

    async def close(self) -> None: ...


class AccountedModel(WrappedModel):
    """A `ChatModel` that gives `sink` one row for each call, also for failed and cancelled ones.

    The same calls in another process get the same ids: equal requests are numbered in their order.
    """

    def __init__(self, model: ChatModel, origin: Origin, sink: Callable[[ModelCall], None]) -> None:
        super().__init__(model)
        self._origin = origin
        self._sink = sink
        self._made: Counter[str] = Counter()

    async def complete(self, request: ChatRequest) -> Completion:
        start = perf_counter()
        completion, error = None, "the caller gave up waiting"
        try:
            completion = await self._model.complete(request)
            return completion
        except ModelFailure as failure:
            error = str(failure)
            raise
        finally:
            milliseconds, origin, version = (perf_counter() - start) * 1000, self._origin, self.version
            made_for = (origin.run_id, origin.round, request.role, request.trajectory_id, request.step_index)
            call = content_id("call", *made_for, payload_hash(request, version))
            self._made[call] += 1
            failed = None if completion else error
            call_id = content_id(call, self._made[call])
            self._sink(model_call_row(call_id, request, completion, milliseconds, failed, version, origin))


Vector = tuple[float, ...]


@runtime_checkable
class EmbeddingModel(Protocol):
    """A model that gives a vector for a text; vectors of texts with like meanings point in like directions."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts, in their order, all equally long. Raises ModelFailure without an answer."""


def embedding_model(model: ChatModel) -> EmbeddingModel:
    """Return the model of an endpoint, whose vectors are not cached. Raises BadInputError if it embeds no texts."""
    asked = model.unwrapped if isinstance(model, WrappedModel) else model
    if not isinstance(asked, EmbeddingModel):
        raise BadInputError(f"{model.version} embeds no texts: name an endpoint of kind openai_api")
    return asked


def _blocks(message: ChatMessage) -> list[str | dict[str, str]]:
    """The parts of a message, with `{"screen": id}` for an observation or an image."""
    return [part if isinstance(part, str) else {"screen": screen_of(part).screen_id} for part in message.parts]


def payload_hash(request: ChatRequest, model_version: str) -> str:
    """Hash everything that decides the answer; requests with equal hashes may share one answer.

    Screens count by their content id. The role, the trajectory and the step do not change the answer.
    """
    messages = [
        [message.role, *([block] if isinstance(block, str) else block for block in _blocks(message))]
        for message in request.messages
    ]
    return content_id(
        model_version,
        messages,
        request.temperature,
        request.top_p,
        request.seed,
        request.max_tokens,
        request.n,
        request.top_logprobs,
        request.answer_schema,
        request.image_scale,
        *(["with_tokens"] if request.with_tokens else []),
    )


def model_call_row(
    call_id: str,
    request: ChatRequest,
    completion: Completion | None,
    latency_ms: float,
    error: str | None,
    model_version: str,
    origin: Origin,
    malformed: str = "",
) -> ModelCall:
    """Return the `model_calls` row of a request; texts that cannot be stored are repaired.

    `call_id` identifies the call, not the request: a request that is sent twice makes two rows. `completion` is None if
    the call failed, with `error`, one line. `malformed` is why an agent's role could not use the answer.
    """
    messages = [
        {
            "role": storable(message.role),
            "content": [storable(block) if isinstance(block, str) else block for block in _blocks(message)],
        }
        for message in request.messages
    ]
    return ModelCall(
        call_id=call_id,
        trajectory_id=request.trajectory_id,
        step_index=request.step_index,
        role=request.role,
        payload_hash=payload_hash(request, model_version),
        messages=json.dumps(messages, separators=(",", ":"), ensure_ascii=False),
        response=storable(completion.text) if completion else None,
        input_tokens=completion.input_tokens if completion else 0,
        output_tokens=completion.output_tokens if completion else 0,
        latency_ms=latency_ms,
        price=completion.price if completion else 0.0,
        error=None if error is None else storable(error),
        other_responses=tuple(map(storable, completion.others)) if completion else (),
        cached=completion.cached if completion else False,
        draw=request.draws[0] if request.draws else None,
        draws=request.draws or None,
        image_scale=request.image_scale,
        malformed=storable(malformed) or None,
        **origin.common(made_by=model_version),
    )


_COMPLETION: Final = TypeAdapter(Completion)


def completion_from_json(text: str) -> Completion:
    """Parse a completion that `json.dumps` wrote. Raises ValueError or RecursionError for another text."""
    return _COMPLETION.validate_python(json.loads(text))


_ACTING_ROLES: Final = frozenset({"policy", "planner", "executor", "worker"})
_LARGEST: Final = 4 * 2**30
"""Most bytes on disk; the oldest entries are removed."""
_BROKEN: Final = (sqlite3.Error, zlib.error, OSError, Timeout, ValueError, TypeError, RecursionError)
"""Errors of diskcache for a broken entry, a broken database or a full disk."""


def is_repeatable(request: ChatRequest) -> bool:
    """Return whether an earlier answer to the same request may be used."""
    return request.temperature == 0 or request.role not in _ACTING_ROLES


class CachedModel(WrappedModel):
    """A `ChatModel` that answers from disk if it can; use it from one event loop at a time.

    An answered request is not sent again, even by another process or after a crash. Answers of all roles are cached,
    except those of a policy that samples: while it explores, it must not get its earlier answers. A sampled vote has
    its seed in the key, so the next vote is another request.

    Equal requests that wait at the same time share one call. An answer from the cache, or from the call of another
    caller, is marked `cached` and has price 0; its tokens are those of the original call. An unreadable entry is a
    miss; an entry that cannot be written is asked for again next time.
    """

    def __init__(self, model: ChatModel, folder: Path, version: str = "") -> None:
        """Use the cache in a folder, made if missing. Raises BadInputError if it is unusable, or has other files."""
        super().__init__(model, version)
        try:
            self._cache = Cache(str(folder.absolute()), disk=_PlainDisk, size_limit=_LARGEST)
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise BadInputError(f"{folder}: no request cache ({reason}); delete it or name another folder") from error
        # One thread writes: diskcache has a connection for each thread, and several would only wait for each other.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="request-cache")
        self._shared_calls: dict[str, _SharedCall] = {}

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer from the cache, or ask the model. Raises ModelFailure if it fails; failures are not cached."""
        if not is_repeatable(request):
            return await self._model.complete(request)
        key = payload_hash(request, self._model.version)
        if known := self._read(key):
            return known
        shared = self._shared_calls.get(key)
        joined = shared is not None
        if shared is None:
            shared = self._shared_calls[key] = _SharedCall(asyncio.ensure_future(self._ask(key, request)))
        shared.waiting += 1
        try:
            # Shielded, so that a cancelled caller does not cancel the call of the others.
            completion = await asyncio.shield(shared.call)
        finally:
            shared.waiting -= 1
            if shared.waiting == 0:
                shared.call.cancel()
                del self._shared_calls[key]
        return _as_cached(completion) if joined else completion

    async def forget(self, request: ChatRequest) -> None:
        if is_repeatable(request):
            await self._write(lambda: self._cache.delete(payload_hash(request, self._model.version)))

    async def close(self) -> None:
        self._writer.shutdown()
        self._cache.close()
        await self._model.close()

    async def _ask(self, key: str, request: ChatRequest) -> Completion:
        completion = await self._model.complete(request)
        await self._write(lambda: self._cache.set(key, json.dumps(completion, separators=(",", ":"))))
        return completion

    def _read(self, key: str) -> Completion | None:
        try:
            stored = self._cache.get(key)
            return None if stored is None else _as_cached(completion_from_json(stored))
        except _BROKEN:
            return None

    async def _write(self, change: Callable[[], object]) -> None:
        with suppress(*_BROKEN):
            await asyncio.get_running_loop().run_in_executor(self._writer, change)


@dataclass(slots=True)
class _SharedCall:
    call: asyncio.Future[Completion]
    waiting: int = 0


class _PlainDisk(JSONDisk):  # type: ignore[misc]
    """Stores JSON only; refuses entries that diskcache would unpickle, so that a cache file cannot run code."""

    def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> Any:
        if mode == MODE_PICKLE:
            raise ValueError("a pickled entry")
        return super().fetch(mode, filename, value, read)


def _as_cached(completion: Completion) -> Completion:
    return completion._replace(price=0.0, cached=True)
