"""Conversations with a model written to a file, and a model that repeats them: for tests and audits."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Record
from trajmill.schemas.storable import storable
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion
from trajmill.stages.models.completion_json import completion_from_json, completion_to_json
from trajmill.stages.models.messages import messages_to_json
from trajmill.stages.models.model_call_row import payload_hash
from trajmill.stages.models.wrapped.base import WrappedModel

_LONGEST_QUOTE = 60


class _Frame(Record):
    """A line that says how the model's positions relate to screens of one size."""

    kind: Literal["frame"] = "frame"
    model_version: str
    frame: CoordinateFrame


class _Call(Record):
    """A line that holds a request and what came of it."""

    kind: Literal["call"] = "call"
    model_version: str
    payload_hash: str
    role: str
    messages: str
    """JSON; screens by id."""
    completion: str | None
    """JSON of the completion, None where the model failed."""
    error: str | None


class RecordingModel(WrappedModel):
    """A `ChatModel` that writes what it is asked and answers to a JSONL file, each call when it ends."""

    def __init__(self, model: ChatModel, path: Path) -> None:
        """Begin a recording.

        Raises:
            BadInputError: the file is there already, or cannot be made.
        """
        super().__init__(model)
        self._framed: set[Size] = set()
        try:
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            raise BadInputError(f"{path}: no recording can be begun there: {error.strerror}; name a new file") from None

    def frame(self, screen: Size) -> CoordinateFrame:
        """The frame of the model that is asked."""
        frame = self._model.frame(screen)
        if screen not in self._framed:
            self._framed.add(screen)
            self._write(_Frame(model_version=self.version, frame=frame))
        return frame

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request and write both down.

        Raises:
            ModelFailure: no answer; that is written down too.
        """
        try:
            completion = await self._model.complete(request)
        except ModelFailure as failure:
            self._record(request, None, storable(str(failure)))
            raise
        self._record(request, completion_to_json(completion), None)
        return completion

    async def close(self) -> None:
        """Close the file and the model."""
        self._file.close()
        await self._model.close()

    def _record(self, request: ChatRequest, completion: str | None, error: str | None) -> None:
        self._write(
            _Call(
                model_version=self.version,
                payload_hash=payload_hash(request, self.version),
                role=request.role,
                messages=messages_to_json(request.messages),
                completion=completion,
                error=error,
            )
        )

    def _write(self, line: _Frame | _Call) -> None:
        self._file.write(line.model_dump_json().encode() + b"\n")


class ReplayedModel:
    """A `ChatModel` that answers from a recording, and only from it.

    A request that was made several times gets its answers in their order, then the last one again.
    """

    def __init__(self, path: Path) -> None:
        """Read a recording whole. A last line that was cut off by a crash is left out.

        Raises:
            BadInputError: the file cannot be read, is no recording, or is one of several models.
        """
        self._path = path
        self._frames: dict[Size, CoordinateFrame] = {}
        self._calls: dict[str, deque[_Call]] = {}
        versions: set[str] = set()
        for line in _lines(path):
            versions.add(line.model_version)
            if isinstance(line, _Frame):
                self._frames[line.frame.screen] = line.frame
            else:
                self._calls.setdefault(line.payload_hash, deque()).append(line)
        if len(versions) != 1:
            raise BadInputError(f"{path}: a recording of {len(versions)} models; it must be of one")
        [self._version] = versions

    @property
    def version(self) -> str:
        """Version of the model that was recorded."""
        return self._version

    def frame(self, screen: Size) -> CoordinateFrame:
        """The frame that was recorded for screens of that size.

        Raises:
            ModelFailure: there is none.
        """
        frame = self._frames.get(screen)
        if frame is None:
            raise ModelFailure(f"{self._path} has no frame for screens of {screen.width}x{screen.height}")
        return frame

    async def complete(self, request: ChatRequest) -> Completion:
        """Repeat the recorded answer, or the recorded failure.

        Raises:
            ModelFailure: the model failed then, or the request was never made; it is named.
        """
        asked = payload_hash(request, self._version)
        calls = self._calls.get(asked)
        if calls is None:
            raise ModelFailure(f"{self._path} has no answer to {request.role} request {asked} ({_quote(request)})")
        call = calls.popleft() if len(calls) > 1 else calls[0]
        if call.completion is None:
            raise ModelFailure(call.error or "the recorded call failed")
        return completion_from_json(call.completion)

    async def close(self) -> None:
        """Nothing to let go of."""


_LINE: TypeAdapter[_Frame | _Call] = TypeAdapter(Annotated[_Frame | _Call, Field(discriminator="kind")])


def _lines(path: Path) -> list[_Frame | _Call]:
    try:
        with path.open("rb") as file:
            whole = [line for line in file if line.endswith(b"\n")]
    except OSError as error:
        raise BadInputError(f"{path}: recording cannot be read: {error.strerror}") from None
    return [_parsed(path, number, line) for number, line in enumerate(whole, start=1)]


def _parsed(path: Path, number: int, text: bytes) -> _Frame | _Call:
    try:
        line = _LINE.validate_json(text)
        if isinstance(line, _Call) and line.completion is not None:
            completion_from_json(line.completion)
    except ValueError:
        raise BadInputError(f"{path}:{number}: not a line of a recording; record it anew") from None
    return line


def _quote(request: ChatRequest) -> str:
    texts = [part for message in request.messages for part in message.parts if isinstance(part, str)]
    last = " ".join(storable(texts[-1]).split()) if texts else ""
    return f'"{last[:_LONGEST_QUOTE]}..."' if len(last) > _LONGEST_QUOTE else f'"{last}"'
