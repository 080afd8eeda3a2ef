"""Caches answers on disk: an answered request is not sent again, even by another process or after a crash.

Answers of all roles are cached, except those of a policy that samples: while it explores, it must not get its earlier
answers. A sampled vote has its seed in the key, so the next vote is another request.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from diskcache import Cache, JSONDisk, Timeout  # type: ignore[import-untyped]
from diskcache.core import MODE_PICKLE  # type: ignore[import-untyped]
from pydantic import TypeAdapter

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.base import MOST_TOKENS, ChatModel, ChatRequest, Completion
from trajmill.stages.models.model_call_row import payload_hash
from trajmill.stages.models.wrapped import WrappedModel

_COMPLETION: Final = TypeAdapter(Completion)


def completion_to_json(completion: Completion) -> str:
    return json.dumps(completion, separators=(",", ":"))


def completion_from_json(text: str) -> Completion:
    """The completion that `completion_to_json` wrote. Raises ValueError for another text."""
    try:
        completion = _COMPLETION.validate_python(json.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    for count in (completion.input_tokens, completion.output_tokens):
        if not 0 <= count <= MOST_TOKENS:
            raise ValueError(f"{count} is no number of tokens")
    return completion


_ACTING_ROLES: Final = frozenset({"policy", "planner", "executor"})
_LARGEST: Final = 4 * 2**30
"""Most bytes on disk; the oldest entries are removed."""
_BROKEN: Final = (sqlite3.Error, zlib.error, OSError, Timeout, ValueError, TypeError)
"""Errors of diskcache for a broken entry, a broken database or a full disk."""


def is_repeatable(request: ChatRequest) -> bool:
    """Whether an earlier answer to the same request may be used."""
    return request.temperature == 0 or request.role not in _ACTING_ROLES


class CachedModel(WrappedModel):
    """A `ChatModel` that answers from disk if it can; use it from one event loop at a time.

    Equal requests that wait at the same time share one call. An answer from the cache, or from the call of another
    caller, is marked `cached` and has price 0; its tokens are those of the original call. An unreadable entry is a
    miss; an entry that cannot be written is asked for again next time.
    """

    def __init__(self, model: ChatModel, folder: Path, version: str = "") -> None:
        """Use the cache in a folder, which is made if missing; see `WrappedModel` for the version.

        Raises:
            BadInputError: the folder cannot be written, or has other files.
        """
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
        """Answer a request from the cache, or ask the model.

        Raises:
            ModelFailure: the model was asked and gave no answer; failures are not cached.
        """
        if not is_repeatable(request):
            return await self._model.complete(request)
        key = payload_hash(request, self._model.version)
        return self._read(key) or await self._join(key, request)

    async def forget(self, request: ChatRequest) -> None:
        """Remove the answer to a request, because it was not valid."""
        if is_repeatable(request):
            key = payload_hash(request, self._model.version)
            await asyncio.get_running_loop().run_in_executor(self._writer, self._remove, key)

    async def close(self) -> None:
        self._writer.shutdown()
        self._cache.close()
        await self._model.close()

    async def _join(self, key: str, request: ChatRequest) -> Completion:
        """Wait for the running call of this key, or start it."""
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

    async def _ask(self, key: str, request: ChatRequest) -> Completion:
        completion = await self._model.complete(request)
        await asyncio.get_running_loop().run_in_executor(self._writer, self._write, key, completion)
        return completion

    def _read(self, key: str) -> Completion | None:
        try:
            stored = self._cache.get(key)
            return None if stored is None else _as_cached(completion_from_json(stored))
        except _BROKEN:
            return None

    def _write(self, key: str, completion: Completion) -> None:
        try:
            self._cache.set(key, completion_to_json(completion))
        except _BROKEN:
            return

    def _remove(self, key: str) -> None:
        try:
            self._cache.delete(key)
        except _BROKEN:
            return


@dataclass(slots=True)
class _SharedCall:
    """A running call and the number of callers that wait for it."""

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
