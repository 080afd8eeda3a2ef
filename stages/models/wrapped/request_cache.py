"""A request cache on disk: an answered request is not sent again, not by another process and not after a crash.

Kept are the answers of every role but the acting ones, and those of an acting role that decodes greedily. (A sampled
vote has its seed in the key, so the next vote is another request; a policy that explores must not get its own earlier
answers.)
"""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from diskcache import Cache, JSONDisk, Timeout  # type: ignore[import-untyped]
from diskcache.core import MODE_PICKLE  # type: ignore[import-untyped]

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion
from trajmill.stages.models.completion_json import completion_from_json, completion_to_json
from trajmill.stages.models.model_call_row import payload_hash
from trajmill.stages.models.wrapped.base import WrappedModel

_ACTING_ROLES: Final = frozenset({"policy", "planner", "executor"})
_LARGEST: Final = 4 * 2**30
"""Bytes on disk; beyond it the oldest entries go."""
_BROKEN: Final = (sqlite3.Error, zlib.error, OSError, Timeout, ValueError, TypeError)
"""What a broken entry, a broken database or a full disk makes diskcache raise."""


def is_repeatable(request: ChatRequest) -> bool:
    """Whether an earlier answer may stand for the answer to a request."""
    return request.temperature == 0 or request.role not in _ACTING_ROLES


class CachedModel(WrappedModel):
    """A `ChatModel` that answers from disk what it can; to be used from one event loop at a time.

    Equal requests that wait at the same time are one call. What comes from the cache, or from the call of another
    caller, is marked `cached` and costs nothing; its tokens are those of the call that was made. An entry that cannot
    be read is a miss, and one that cannot be written is asked for again next time.
    """

    def __init__(self, model: ChatModel, folder: Path) -> None:
        """Use the cache in a folder, which is made if it is not there.

        Raises:
            BadInputError: the folder cannot hold a cache, or holds something else.
        """
        super().__init__(model)
        try:
            self._cache = Cache(str(folder.absolute()), disk=_PlainDisk, size_limit=_LARGEST)
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise BadInputError(f"{folder}: no request cache ({reason}); delete it or name another folder") from error
        # One writer: diskcache keeps a connection per thread, and the writes of a process would only wait for another.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="request-cache")
        self._flights: dict[str, _Flight] = {}

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request from the cache, or ask.

        Raises:
            ModelFailure: it had to be asked and was not answered; failures are not kept.
        """
        if not is_repeatable(request):
            return await self._model.complete(request)
        key = payload_hash(request, self.version)
        return self._read(key) or await self._join(key, request)

    async def close(self) -> None:
        """Close the cache and the model; closing twice is fine."""
        self._writer.shutdown()
        self._cache.close()
        await self._model.close()

    async def _join(self, key: str, request: ChatRequest) -> Completion:
        """Wait for the call of this key, and begin it if nobody has."""
        flight = self._flights.get(key)
        begun_by_another = flight is not None
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.ensure_future(self._ask(key, request)))
        flight.waiting += 1
        try:
            # Shielded: a caller that gives up must not take the answer from the others.
            completion = await asyncio.shield(flight.call)
        finally:
            flight.waiting -= 1
            if flight.waiting == 0:
                flight.call.cancel()
                del self._flights[key]
        return _free(completion) if begun_by_another else completion

    async def _ask(self, key: str, request: ChatRequest) -> Completion:
        completion = await self._model.complete(request)
        await asyncio.get_running_loop().run_in_executor(self._writer, self._write, key, completion)
        return completion

    def _read(self, key: str) -> Completion | None:
        try:
            stored = self._cache.get(key)
            return None if stored is None else _free(completion_from_json(stored))
        except _BROKEN:
            return None

    def _write(self, key: str, completion: Completion) -> None:
        try:
            self._cache.set(key, completion_to_json(completion))
        except _BROKEN:
            return


@dataclass(slots=True)
class _Flight:
    """A call on its way and how many wait for it."""

    call: asyncio.Future[Completion]
    waiting: int = 0


class _PlainDisk(JSONDisk):  # type: ignore[misc]
    """JSON in, JSON out; refuses the entries that diskcache would unpickle, so that a cache can run nothing."""

    def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> Any:
        if mode == MODE_PICKLE:
            raise ValueError("a pickled entry")
        return super().fetch(mode, filename, value, read)


def _free(completion: Completion) -> Completion:
    return completion._replace(price=0.0, cached=True)
