"""The protocol of dialects; `parse` never raises for a model's text and never executes it.

Dialects share tools and names with different meanings: the same numbers are pixels in one and thousandths in another.
So a reply in the typical form of another dialect is refused, because it would be parsed wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame

GUI_OWL_V3: Final = "gui-owl"
GUI_OWL_1_5: Final = "gui-owl-1.5"
GUI_R1: Final = "gui-r1"
QWEN2_5_VL: Final = "qwen2.5-vl"
"""A reply without a typical form; a call alone may be of any dialect."""
QWEN3_VL: Final = "qwen3-vl"
ORDERING: Final = frozenset({GUI_OWL_1_5, QWEN3_VL})
"""Dialects whose replies say in the imperative what to do; the history keeps this order."""
READ_ALOUD: Final = "read-aloud"
UI_TARS: Final = "ui-tars"

_WRITERS = {
    "click": GUI_OWL_V3,
    "drag": GUI_OWL_V3,
    "left_click": f"{QWEN2_5_VL}, {QWEN3_VL} or {GUI_OWL_1_5}",
    "left_click_drag": f"{QWEN2_5_VL}, {QWEN3_VL} or {GUI_OWL_1_5}",
    "triple_click": f"{QWEN3_VL} or {GUI_OWL_1_5}",
    "hscroll": f"{QWEN3_VL} or {GUI_OWL_1_5}",
    "interact": GUI_OWL_1_5,
}
"""By name of an action that only some dialects have, these dialects."""
_SPOKEN_PLACE = re.compile(r"<do> \w+ <x\d+> <y\d+>")
_LITERAL_ANSWER = re.compile(r"<answer>\s*\[?\s*\{\s*'action'")
_CONCLUSION = re.compile(r"</tool_call>\s*(?:Conclusion:|<conclusion>)")
_UI_TARS_CALL = re.compile(
    r"^Action:[ \t]*(?:click|left_double|right_single|long_press|drag|hotkey|type|scroll|open_app|press_home|press_back"
    r"|wait|finished|call_user)\(",
    re.MULTILINE,
)
_CALL, _CALL_END = "<tool_call>", "</tool_call>"
_EMPTY_THOUGHT = "Thought: \n"
"""What a format without such tags writes before the call where there is no thought."""


class ParseFailure(NamedTuple):
    """The reason why a model's text is no action."""

    message: str


class Reply(NamedTuple):
    """A parsed reply of an end-to-end agent."""

    thought: str
    action: Action
    conclusion: str
    slip: str = ""
    """How the text departs from the dialect's form, though the action can be read; empty if it does not. A rollout acts
    on such a reply, a reward function does not."""
    order: str = ""
    """What to do, in the imperative, for dialects that write it; they name the place of the action if it is empty."""


class NotExpressible(ValueError):
    """A dialect cannot express an action; the message names both."""


class Dialect(Protocol):
    """A wire format of actions on one platform."""

    def system_prompt(self, frame: CoordinateFrame) -> str:
        """The system message that teaches a model this format."""
        ...

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        """The user's text: the task, its guidance, and the conclusions of the steps that are not shown."""
        ...

    def parse(self, text: str, frame: CoordinateFrame) -> Reply | ParseFailure:
        """Parse a model's reply; every text gives a reply or a failure."""
        ...

    def render(self, reply: Reply, frame: CoordinateFrame) -> str:
        """Write a reply as the model would. Raises NotExpressible if the dialect cannot express the action."""
        ...


def bare_call(action: Action, dialect: Dialect, frame: CoordinateFrame) -> str:
    """The call of an action without the words around it. Raises NotExpressible as `Dialect.render` does."""
    text = dialect.render(Reply("", action, ""), frame)
    if _CALL not in text:
        return text.removeprefix(_EMPTY_THOUGHT)
    return text[text.index(_CALL) : text.index(_CALL_END) + len(_CALL_END)]


def dialect_seen_in(text: str) -> str:
    """The dialect whose typical form a reply has; empty if it may be of several."""
    before, call, after = text.partition(_CALL)
    # The typed text of a UI-TARS call may contain the start of a JSON call, which otherwise begins a line.
    if _UI_TARS_CALL.search(before) and not (call and before.rstrip(" \t").endswith("\n")):
        return UI_TARS
    if not call:
        if _SPOKEN_PLACE.search(before):
            return READ_ALOUD
        return GUI_R1 if _LITERAL_ANSWER.search(before) else ""
    if _CONCLUSION.search(after):
        return GUI_OWL_V3
    before = before.strip()
    if before.startswith("Action:"):
        return GUI_OWL_1_5
    return QWEN3_VL if before.startswith("Thought:") and "\nAction:" in before else ""


def unknown_action(tool: str, name: str) -> str:
    writer = _WRITERS.get(name)
    return f"{tool} has no action {name!r:.40}" + (f" here; it belongs to {writer}" if writer else "")
