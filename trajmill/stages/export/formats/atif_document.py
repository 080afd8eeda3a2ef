"""Documents of ATIF v1.8 (Harbor's RFC 0001): what the format `atif` writes and the layout `atif` reads.

Unknown keys are an error, as the RFC demands, but for `extra` of a part and of an observation, which the Agent Data
Protocol adds. Agent and metrics are not checked: little of them is read.

Actions are calls of `computer_action` and `mark_task_complete`, the tools of Harbor's agent `computer-1`. Positions are
pixels of the stored screenshot. 100 units of `scroll_x` and `scroll_y` are one click of the wheel; positive is right
and down. Types that Harbor does not have (`long_press`, `swipe`, ...) are the kinds of our actions. Every action has
exactly one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, get_args

from pydantic import Field, ValidationError, model_validator

from trajmill.schemas import actions
from trajmill.schemas.actions import Action
from trajmill.schemas.record import Record
from trajmill.stages.parts import plain_mistake

COMPUTER_ACTION: Final = "computer_action"
TASK_COMPLETE: Final = "mark_task_complete"
WHEEL_CLICK: Final = 100
_UNSAID_SCROLL: Final = 500
"""`scroll_y` of a scroll without one."""
_MOST_WHEEL_CLICKS: Final = 1000
_CLICKS: Final[Mapping[str, tuple[str, int]]] = {
    "click": ("left", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
}
_CLICK_TYPES: Final = {clicked: name for name, clicked in _CLICKS.items()}
_TYPES: Final = {"key": "keypress", "open": "open_app"}
"""The types of kinds with another name."""
_ARGUMENTS: Final = {"x2": "end_x", "y2": "end_y", "seconds": "duration"} | {
    "clear": "clear_before_typing",
    "enter": "press_enter",
}
"""The arguments of fields with another name."""
_KINDS: Final = {kind.model_fields["kind"].default: kind for kind in get_args(get_args(Action)[0])}
_NO_TYPES: Final = ("click", "hscroll", "answer", "terminate")
_PLACES: Final = ("x", "y", "end_x", "end_y")


class ToolUse(NamedTuple):
    name: str
    arguments: Mapping[str, Any]


def tool_use(action: Action) -> ToolUse:
    values = {name: value for name, value in action.model_dump(mode="json").items() if value is not None}
    kind = values.pop("kind")
    match action:
        case actions.Answer(text=text):
            return ToolUse(TASK_COMPLETE, {"result": text})
        case actions.Terminate(status=status):
            return ToolUse(TASK_COMPLETE, {"result": None, "status": status})
        case actions.Click(button=button, count=count) if name := _CLICK_TYPES.get((button, count)):
            return ToolUse(COMPUTER_ACTION, {"type": name, "x": action.x, "y": action.y})
        case actions.Scroll():
            values["scroll_y"] = -values.pop("clicks") * WHEEL_CLICK
        case actions.HorizontalScroll():
            kind = "scroll"
            values |= {"scroll_x": values.pop("clicks") * WHEEL_CLICK, "scroll_y": 0}
    written = {_ARGUMENTS.get(name, name): value for name, value in values.items()}
    return ToolUse(COMPUTER_ACTION, {"type": _TYPES.get(kind, kind), **written})


def read_computer_action(arguments: Mapping[str, Any]) -> Action | None:
    """Return the action of a call of `computer_action`; None for a type without a counterpart.

    Raises ValueError if an argument is missing or wrong.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    # Some models write fractions of a pixel.
    given |= {name: round(given[name]) for name in _PLACES if isinstance(given.get(name), float) and given[name] > 1}
    kind = str(given.get("type"))
    if given.get("modifier"):
        return None
    if kind == "done":
        return actions.Terminate(status="success")
    if kind == "answer":
        return actions.Answer(text=given.get("result", given.get("text")))
    if kind == "scroll":
        return _scroll(given)
    if kind in _CLICKS:
        kind, of = "click", dict(zip(("button", "count"), _CLICKS[kind], strict=True))
        given = of | given
    record = _KINDS.get(next((ours for ours, theirs in _TYPES.items() if theirs == kind), kind))
    if record is None:
        return None
    names = {field: _ARGUMENTS.get(field, field) for field in record.model_fields if field != "kind"}
    action: Action = record.model_validate({field: given[name] for field, name in names.items() if name in given})
    return action


def read_task_complete(arguments: Mapping[str, Any]) -> Action:
    """Return the end that a call of `mark_task_complete` reports; raises ValueError for an unknown status."""
    if arguments.get("status") is None and isinstance(result := arguments.get("result"), str) and result:
        return actions.Answer(text=result)
    return actions.Terminate.model_validate({"status": arguments.get("status") or "success"})


def _scroll(given: Mapping[str, Any]) -> Action | None:
    place = {"x": given.get("x"), "y": given.get("y")}
    across, down = given.get("scroll_x"), given.get("scroll_y")
    if across and down:
        return None
    if across is not None and not down:
        return actions.HorizontalScroll(clicks=_wheel(across), **place)
    return actions.Scroll(clicks=-_wheel(_UNSAID_SCROLL if down is None else down), **place)


def _wheel(units: float) -> int:
    clicks = max(1, int(abs(units)) // WHEEL_CLICK) if units else 0
    return (1 if units > 0 else -1) * min(clicks, _MOST_WHEEL_CLICKS)


def tool_definitions() -> Sequence[Mapping[str, Any]]:
    """Return the two tools in the form of OpenAI's API."""
    types = [*_CLICKS, *(_TYPES.get(kind, kind) for kind in _KINDS if kind not in _NO_TYPES)]
    acted: dict[str, Json] = {"type": {"enum": types}}
    acted |= {name: {"type": "integer", "description": "Pixels."} for name in _PLACES}
    wheel = {"type": "integer", "description": f"{WHEEL_CLICK} for each click of the wheel, right or down."}
    acted |= {"scroll_x": wheel, "scroll_y": wheel, "duration": {"type": "number", "description": "Seconds."}}
    acted |= {name: {"type": "boolean"} for name in ("clear_before_typing", "press_enter")}
    acted |= {name: {"type": "string"} for name in ("text", "app", "button", "device")}
    acted |= {"keys": {"type": "array", "items": {"type": "string"}}, "count": {"type": "integer"}}
    ended = {"result": {"type": ["string", "null"]}, "status": {"enum": ["success", "failure"]}}
    tools = {COMPUTER_ACTION: ("Do one thing on the screen.", acted), TASK_COMPLETE: ("End the task.", ended)}
    return [
        {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
        for name, (about, properties) in tools.items()
        for parameters in [{"type": "object", "properties": properties}]
    ]


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
        raise ValueError(plain_mistake(".".join(map(str, wrong["loc"])) or "the document", wrong)) from None


def ours(extra: Json | None) -> Json:
    """Return what trajmill has written into an `extra`; empty without it."""
    found = (extra or {}).get(NAMESPACE)
    return found if isinstance(found, Mapping) else {}
