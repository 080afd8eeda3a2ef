"""Documents of ATIF v1.8 (Harbor's RFC 0001): what the format `atif` writes and the layout `atif` reads.

Unknown keys are an error, as the RFC demands, but for `extra` of a part and of an observation, which the Agent Data
Protocol adds. Agent and metrics are not checked: little of them is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from trajmill.schemas.record import Record

VERSION: Final = "ATIF-v1.8"
_VERSIONS: Final = tuple(f"ATIF-v1.{minor}" for minor in range(9))
NAMESPACE: Final = "trajmill"
"""The key of `extra` under which everything of ours is."""

Json = Mapping[str, Any]


class Source(Record):
    media_type: str
    path: str
    """Relative to the document, absolute, or a URL."""
    duration_sec: float | None = None


class Part(Record):
    """A piece of a message: a text, or a file."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: Source | None = None
    extra: Json | None = None


Content = str | tuple[Part, ...]


class ToolCall(Record):
    tool_call_id: str
    function_name: str
    arguments: Json
    extra: Json | None = None


class Result(Record):
    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: tuple[Json, ...] | None = None
    extra: Json | None = None


class StepObservation(Record):
    results: tuple[Result, ...]
    extra: Json | None = None


class Turn(Record):
    """A step of a document: of the system, the user, or the agent."""

    step_id: int
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    message: Content
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: StepObservation | None = None
    metrics: Json | None = None
    llm_call_count: int | None = None
    is_copied_context: bool | None = None
    extra: Json | None = None

    @property
    def results(self) -> tuple[Result, ...]:
        return self.observation.results if self.observation else ()

    @model_validator(mode="after")
    def _results_name_calls(self) -> Self:
        calls = {None, *(call.tool_call_id for call in self.tool_calls or ())}
        for result in self.results:
            if result.source_call_id not in calls:
                raise ValueError(f"a result names call {result.source_call_id!r:.60}, which the step does not make")
        return self


class AtifDocument(Record):
    schema_version: str
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: Json
    steps: Annotated[tuple[Turn, ...], Field(min_length=1)]
    notes: str | None = None
    final_metrics: Json | None = None
    continued_trajectory_ref: str | None = None
    extra: Json | None = None
    subagent_trajectories: tuple[Json, ...] | None = None
    """Whole documents."""

    @model_validator(mode="after")
    def _steps_are_numbered(self) -> Self:
        for number, step in enumerate(self.steps, 1):
            if step.step_id != number:
                raise ValueError(f"step_id {step.step_id} stands where {number} is expected: a step is missing")
        return self


def read_document(value: Any) -> AtifDocument:
    """Check a document; raises ValueError, in one line, for the first mistake."""
    version = value.get("schema_version") if isinstance(value, Mapping) else None
    if version not in _VERSIONS:
        raise ValueError(f"schema_version {version!r:.60} is none of {_VERSIONS[0]} to {VERSION}")
    try:
        return AtifDocument.model_validate(value)
    except ValidationError as error:
        # Of a union's mistakes, the deepest is that of the form which was meant.
        wrong = max(error.errors(include_url=False, include_input=False), key=lambda each: len(each["loc"]))
        place = ".".join(map(str, wrong["loc"]))
        why = "unknown key" if wrong["type"] == "extra_forbidden" else wrong["msg"].removeprefix("Value error, ")
        raise ValueError(f"{place}: {why}" if place else why) from None


def ours(extra: Json | None) -> Json:
    """Return what trajmill has written into an `extra`; empty without it."""
    found = (extra or {}).get(NAMESPACE)
    return found if isinstance(found, Mapping) else {}
