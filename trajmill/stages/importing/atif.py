"""ATIF 1.0 to 1.8: the trials of Harbor, documents of OpenEnv and NeMo Gym, our own export, and anybody's.

The screen of a step is the last picture that the agent had been given. Calls that only look (a screenshot) are no
steps, and neither is what precedes the first picture. A call without a counterpart in our actions stays a step, in its
own words and without an action. Calls are those of Harbor's `computer_action`, of Anthropic's `computer`, and of the
tools of our families.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import TypeAdapter

from trajmill.schemas.actions import Action, Answer, ends_episode
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY, FAMILIES, Family, family_named
from trajmill.schemas.dialects.published_tools import COMPUTER_USE, MOBILE_USE
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.names import known_by
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.formats import atif_document as atif
from trajmill.stages.export.formats.atif_document import (
    COMPUTER_ACTION,
    TASK_COMPLETE,
    WHEEL_CLICK,
    read_computer_action,
    read_task_complete,
)
from trajmill.stages.importing import base
from trajmill.stages.importing.base import BadRecording, BadRecordingError, ReadRecording, RecordedScreen, RecordedStep
from trajmill.stages.models.base import ReplyTokens

_ANTHROPIC: Final = "computer"
_LONGEST_EDGE: Final = 1568
_MOST_PIXELS: Final = 1_150_000
"""Anthropic's models see a larger screenshot smaller, and write positions in it."""
_KEYS: Final = {COMPUTER_ACTION: "type", _ANTHROPIC: "action"}
"""The argument of a tool that says what to do."""
_LOOKS: Final = ("screenshot", "cursor_position", "zoom")
_POINTED: Final = {"left_click": "click", "middle_click": "middle_click", "mouse_move": "mouse_move"} | {
    name: name for name in ("right_click", "double_click", "triple_click")
}
_WHEEL: Final = {"up": ("scroll_y", -1), "down": ("scroll_y", 1), "left": ("scroll_x", -1), "right": ("scroll_x", 1)}
_PIXEL_FAMILIES: Final = (ANY, FAMILIES["gui-owl-1.5"])
"""Their dialects have all actions of the published tools between them."""


def look_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return how a call looks at the screen without changing it; empty if it acts."""
    return next((look for look in _LOOKS if arguments.get(_KEYS.get(name, "")) == look), "")


def read_call(
    name: str, arguments: Mapping[str, Any], screen: Size, platform: Platform, family: Family
) -> Action | None:
    """Return the action of a call on a screen; None for an unknown tool, and for arguments that are no action."""
    try:
        if name == TASK_COMPLETE:
            return read_task_complete(arguments)
        if name in (COMPUTER_USE, MOBILE_USE):
            return _published(name, arguments, screen, platform, family)
        if name == _ANTHROPIC:
            return read_computer_action(_of_anthropic(arguments, screen))
        return read_computer_action(arguments) if name == COMPUTER_ACTION else None
    except (ValueError, TypeError, LookupError, ArithmeticError, ModelFailure):
        return None


def _published(
    name: str, arguments: Mapping[str, Any], screen: Size, platform: Platform, family: Family
) -> Action | None:
    text = f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
    frame = native_frame(screen) if family is ANY else family.frame(screen)
    for each in _PIXEL_FAMILIES if family is ANY else (family,):
        if isinstance(reply := each.dialect(platform).parse(text, frame), Reply):
            return reply.action
    return None


def _of_anthropic(given: Mapping[str, Any], screen: Size) -> Mapping[str, Any]:
    """Return the arguments of `computer_action` for those of Anthropic's tool `computer`."""
    kind, text = str(given.get("action")), given.get("text")
    shrunk = min(1.0, _LONGEST_EDGE / max(screen), (_MOST_PIXELS / (screen.width * screen.height)) ** 0.5)

    def place(name: str, x: str, y: str) -> dict[str, Any]:
        return {} if name not in given else {x: int(given[name][0] / shrunk), y: int(given[name][1] / shrunk)}

    at = place("coordinate", "x", "y")
    if kind in _POINTED:
        return {"type": _POINTED[kind], **at, "modifier": text}
    match kind:
        case "left_click_drag":
            start = place("start_coordinate", "x", "y")
            return {"type": "drag" if start else "drag_to", **(start or at), **place("coordinate", "end_x", "end_y")}
        case "type":
            return {"type": "type", "text": text}
        case "key":
            return {"type": "keypress", "keys": [key for key in str(text).split("+") if key]}
        case "scroll":
            axis, sign = _WHEEL[given.get("scroll_direction", "down")]
            turned = {"scroll_y": 0, axis: sign * int(given.get("scroll_amount", 3)) * WHEEL_CLICK}
            return {"type": "scroll", **at, **turned, "modifier": text}
        case "wait":
            return {"type": "wait", "duration": given.get("duration")}
        case _:
            return {"type": kind}


_MOST_STEPS: Final = 2_000
"""Steps of all documents in a file or line; larger ones are not parsed."""
_STEP_KEY: Final = b'"step_id"'
_SUBAGENT: Final = "/subagent"
_INITIAL: Final = tuple(f"screenshot_init.{ending}" for ending in ("webp", "png", "jpg"))
"""Harbor's first screenshot, which its documents do not name."""
_PROMPTED: Final = re.compile(r"^Task instructions:\n(.*?)\n\nYou interact with the computer", re.DOTALL | re.MULTILINE)
"""The instruction in the prompt of Harbor's agent `computer-1`."""
_TREE: Final = TypeAdapter(tuple[UIElement, ...])


class AtifLayout(base.LayoutSpec):
    """Attempts of any agent whose screenshots lie beside the document."""

    expected: ClassVar[str] = "TRIAL/agent/trajectory.json (trials of Harbor), or NAME.json or NAME.jsonl of ATIF"
    kind: Literal["atif"] = "atif"
    """Documents of ATIF, e.g. trials of Harbor."""
    family: Annotated[str, known_by(family_named)] = "any"
    """The model family in whose words the calls of `computer_use` and `mobile_use` are; `any` reads pixels."""

    def lists(self, folder: Path) -> Sequence[Path]:
        return sorted(folder.rglob("trajectory*.json")) or sorted([*folder.glob("*.json"), *folder.glob("*.jsonl")])

    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        name = str(file.relative_to(folder))
        if base.within(folder, name) is None:
            yield ReadRecording(BadRecording(name, "it leads out of the folder"), 0)
        elif file.suffix == ".jsonl":
            for number, line in enumerate(base.lines_of(file), 1):
                yield from self._read(f"{name}:{number}", line, file, folder)
        else:
            with file.open("rb") as stream:
                yield from self._read(name, stream.read(min(file.stat().st_size, base.MOST_JSON_BYTES)), file, folder)

    def _read(self, name: str, text: bytes, file: Path, folder: Path) -> Iterator[ReadRecording]:
        size = len(text)
        try:
            with base.reading():
                if (steps := text.count(_STEP_KEY)) > _MOST_STEPS:
                    raise BadRecordingError(f"it has {steps:,} steps; at most {_MOST_STEPS:,} are read")
                found = list(_documents(name, base.parse_json(text)))
        except BadRecordingError as error:
            yield ReadRecording(BadRecording(name, str(error)), size)
            return
        for each, value in found:
            yield base.read_recording(each, size, partial(self._recording, each, value, file, folder))
            size = 0

    def _recording(self, name: str, value: Any, file: Path, folder: Path) -> base.Recording:
        try:
            document = atif.read_document(value)
        except ValueError as error:
            raise BadRecordingError(str(error)) from None
        own = atif.ours(document.extra)
        walk = _Walk(document, file, folder, own.get("platform"), family_named(self.family))
        steps = _with_one_end(walk.steps)
        if not steps:
            raise BadRecordingError("it shows no screenshot, or does nothing after the first one")
        reward = own.get("reward") if own or _SUBAGENT in name else walk.verified_reward()
        if reward is not None and not (isinstance(reward, int | float) and 0 <= reward <= 1):
            raise BadRecordingError(f"{reward!r:.40} is no reward from 0 to 1")
        return base.Recording(
            name=name,
            platform=walk.platform,
            instruction=walk.instruction,
            steps=tuple(steps),
            last=walk.screen,
            agent=str(document.agent["name"]),
            apps=tuple(map(str, own.get("apps") or ())),
            task=str(own.get("task") or ""),
            reward=reward,
        )


def _documents(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each document of a list or of one, and the sub-agents' documents in it."""
    if isinstance(value, list):
        for number, each in enumerate(value, 1):
            yield from _documents(f"{name}#{number}", each)
        return
    yield name, value
    if isinstance(value, Mapping) and value.get("subagent_trajectories"):
        yield from _documents(f"{name}{_SUBAGENT}", value["subagent_trajectories"])


class _Walk:
    """The steps of a document, and the last picture at each of them."""

    def __init__(
        self, document: atif.AtifDocument, file: Path, folder: Path, platform: str | None, family: Family
    ) -> None:
        self._folder, self._beside, self._family = folder, file.parent.relative_to(folder), family
        self._pictures: dict[str, RecordedScreen] = {}
        self._last, self._spoken = document.steps[-1], document.steps[0]
        self.screen: RecordedScreen | None = None
        self.steps: list[RecordedStep] = []
        start = next((at for at, turn in enumerate(document.steps) if turn.source == "user"), None)
        if start is None:
            raise BadRecordingError("no step is of the user, so it has no instruction")
        # What precedes the instruction prepares the environment.
        asked, *turns = document.steps[start:]
        prompted = _PROMPTED.search(_text(asked.message))
        self.instruction = prompted[1] if prompted else _text(asked.message)
        self._see(asked.message, asked.extra, asked)
        if self.screen is None and (first := self._find(*_INITIAL)):
            self.screen = base.read_screen(first, first.name)
        tools = {call.function_name for turn in turns for call in turn.tool_calls or ()}
        is_phone = MOBILE_USE in tools or (self.screen is not None and self.screen.height > self.screen.width)
        self.platform = Platform(platform or ("phone" if is_phone else "desktop"))
        for turn in turns:
            self._follow(turn)

    def verified_reward(self) -> Any:
        """Read the reward of Harbor's verifier, the one named `reward` if there are several; None without any."""
        found = self._find("../verifier/reward.json", "../verifier/reward.txt")
        value = base.parse_json(found.read_bytes()[: base.MOST_JSON_BYTES]) if found else None
        return value.get("reward", next(iter(value.values()), None)) if isinstance(value, Mapping) else value

    def _find(self, *names: str) -> Path | None:
        """Return the first of some files, named from the document; a name that leads out of the folder has none."""
        return base.within(self._folder, *(str(self._beside / name) for name in names))

    def _follow(self, turn: atif.Turn) -> None:
        for call in turn.tool_calls or ():
            look = look_of(call.function_name, call.arguments)
            if not look:
                self._add(turn, call)
            # The picture of a zoom is a part of the screen.
            if look != "zoom":
                self._see_result(turn, call.tool_call_id)
        if turn.source != "agent":
            self._see(turn.message, turn.extra, turn)
        elif not turn.tool_calls:
            self._add(turn, None)
        self._see_result(turn, None)

    def _add(self, turn: atif.Turn, call: atif.ToolCall | None) -> None:
        """Add the step of a call, or of a message alone; the first call of a turn has its thought and its tokens."""
        if self.screen is None:
            return
        own, message = atif.ours(turn.extra), _text(turn.message)
        # The last words of an agent that makes no call are its answer.
        answers = call is None and turn is self._last and not turn.results and not own
        action: Action | None = Answer(text=message) if answers else None
        raw = described = message
        if call is not None:
            name, arguments = call.function_name, call.arguments
            size = Size(self.screen.width, self.screen.height)
            action = read_call(name, arguments, size, self.platform, self._family)
            raw = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
            described = ", ".join(f"{key}={value}" for key, value in arguments.items() if value is not None)
            described = f"{name}({described})"
        is_first, self._spoken = turn is not self._spoken, turn
        roles = own.get("role_outputs") or {}
        self.steps.append(
            RecordedStep(
                screen=self.screen,
                action=action,
                raw=str(own.get("raw_response", raw)),
                thought=(turn.reasoning_content or ("" if own else message)) if is_first else "",
                conclusion=message if own or (turn.reasoning_content and message) else described,
                tokens=_tokens(turn) if is_first else None,
                is_context=bool(turn.is_copied_context),
                role_outputs={str(role): str(text) for role, text in roles.items()},
            )
        )

    def _see_result(self, turn: atif.Turn, call_id: str | None) -> None:
        for result in turn.results:
            if result.source_call_id == call_id:
                self._see(result.content, result.extra, turn)

    def _see(self, content: atif.Content | None, extra: atif.Json | None, turn: atif.Turn) -> None:
        paths = [part.source.path for part in _parts(content) if part.type == "image" and part.source]
        if not paths:
            return
        path, own = paths[-1], atif.ours(extra)
        if path not in self._pictures:
            file = None if "://" in path else self._find(path)
            if file is None:
                why = "is not in the folder" + (": download it" if "://" in path else "")
                raise BadRecordingError(f"step {turn.step_id}: picture {path!r:.80} {why}")
            tree = _TREE.validate_python(own.get("tree") or ()) or None
            self._pictures[path] = base.read_screen(file, path)._replace(elements=tree)
        self.screen = self._pictures[path]._replace(app=str(own.get("app") or ""))


def _with_one_end(steps: Sequence[RecordedStep]) -> Sequence[RecordedStep]:
    """Keep the first of several ends that follow one another (Harbor asks again), and none in the middle."""
    kept = list(steps)
    while len(kept) > 1 and _ends(kept[-1]) and _ends(kept[-2]):
        kept.pop()
    return [step._replace(action=None) if _ends(step) else step for step in kept[:-1]] + kept[-1:]


def _ends(step: RecordedStep) -> bool:
    return step.action is not None and ends_episode(step.action)


def _tokens(turn: atif.Turn) -> ReplyTokens | None:
    ids, logprobs = (turn.metrics or {}).get("completion_token_ids"), (turn.metrics or {}).get("logprobs")
    if ids is None or logprobs is None:
        return None
    if len(ids) != len(logprobs):
        raise BadRecordingError(f"step {turn.step_id}: {len(logprobs)} log probabilities for {len(ids)} tokens")
    return ReplyTokens(tuple(map(int, ids)), tuple(map(float, logprobs)))


def _parts(content: atif.Content | None) -> Sequence[atif.Part]:
    return (atif.Part(type="text", text=content),) if isinstance(content, str) else content or ()


def _text(content: atif.Content | None) -> str:
    return "\n".join(part.text for part in _parts(content) if part.text)
