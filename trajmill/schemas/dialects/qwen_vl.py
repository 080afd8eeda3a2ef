"""The dialects of Qwen2.5-VL, Qwen3-VL and GUI-Owl 1.5: one JSON function call of a published tool.

Qwen2.5-VL writes only the call. Qwen3-VL writes, as in its cookbook,

    Thought: I need to open the menu.
    Action: "Tap 'Menu'."
    <tool_call>
    {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [447, 81]}}
    </tool_call>

GUI-Owl 1.5 writes the same without a thought and quotes. The sentence is an order: what to do, in the imperative. It is
all that the history keeps of a step, so these families have no place for a conclusion.
"""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.actions import Action, order_for, pressed_point
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import GUI_OWL_1_5, QWEN2_5_VL, QWEN3_VL, Reply
from trajmill.schemas.dialects.published_tools import (
    COMPUTER_ACTIONS,
    COMPUTER_USE,
    MOBILE_ACTIONS,
    MOBILE_USE,
    PublishedToolDialect,
    computer_message,
    mobile_message,
)
from trajmill.schemas.dialects.tool_call import CallText, Words
from trajmill.schemas.geometry import Size
from trajmill.schemas.text import one_line

_MOBILE_2_5 = ("key", "click", "long_press", "swipe", "type", "system_button", "open", "wait", "terminate")
_MOBILE_3 = ("click", "long_press", "swipe", "type", "answer", "system_button", "wait", "terminate")
_COMPUTER_2_5 = (
    "key",
    "type",
    "mouse_move",
    "left_click",
    "left_click_drag",
    "right_click",
    "middle_click",
    "double_click",
    "scroll",
    "wait",
    "terminate",
)
_COMPUTER_3 = (*_COMPUTER_2_5[:8], "triple_click", "scroll", "hscroll", "wait", "terminate", "answer")
_ASSISTANT = "You are a helpful assistant.\n\n"
_FORM = """

# Response format

Response format for every step:
{parts}) One <tool_call>...</tool_call> block that holds nothing but the JSON: {"name": <function-name>, "arguments": \
<args-json-object>}.

Rules:
- Write these {count} parts in this order, and nothing else.
- To finish, call the tool with action=terminate."""
_SAY = "Action: one short sentence that says what to do on the screen."
_FORM_3 = _FORM.replace(
    "{parts}", f"1) Thought: one short sentence on why the next step is the right one.\n2) {_SAY}\n3"
).replace("{count}", "three")
_FORM_1_5 = _FORM.replace("{parts}", f"1) {_SAY}\n2").replace("{count}", "two")
_PROGRESS = "Task progress (You have done the following operation on the current device): "
_REQUEST = "Please generate the next move according to the UI screenshot, instruction and previous actions."
_THOUGHT, _LABEL = "Thought:", "Action:"
_INNER = str.maketrans('"', "'")
"""Quotes within the quoted order."""


class _Qwen(PublishedToolDialect):
    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        hints = f"\nGuidance:\n{guidance.strip()}" if guidance else ""
        done = "".join(f"Step {number}: {one_line(step)}; " for number, step in enumerate(past, 1))
        return f"The user query: {instruction}{hints}\n{_PROGRESS}{done}"


class _Qwen25(_Qwen):
    """Only the call; it is also the conclusion of a step."""

    written_by = (QWEN2_5_VL,)

    def _words(self, call: CallText) -> Words:
        return Words(call.before.strip(), one_line(call.body))

    def _around(self, call: str, words: Words) -> str:
        return call


class _Ordering(PublishedToolDialect):
    """A reply that says what to do in the imperative."""

    def _order(self, reply: Reply, frame: CoordinateFrame) -> str:
        touch = self.tool == MOBILE_USE
        return one_line(reply.order or order_for(reply.action, _place(reply.action, frame.screen), touch=touch))


class _Qwen3(_Ordering, _Qwen):
    """A thought, an order in quotes, and the call."""

    written_by = (QWEN3_VL,)

    def _words(self, call: CallText) -> Words:
        thought, _, sentence = f"\n{call.before.strip()}".rpartition(f"\n{_LABEL}")
        order = _unquoted(sentence.strip())
        return Words(thought.strip().removeprefix(_THOUGHT).strip(), order, order)

    def _around(self, call: str, words: Words) -> str:
        return f'{_THOUGHT} {words.thought.strip()}\n{_LABEL} "{words.order.translate(_INNER)}"\n{call}'


class _GuiOwl15(_Ordering):
    """An order, and the call."""

    written_by = (GUI_OWL_1_5,)

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        hints = f"\n\nGuidance:\n{guidance.strip()}" if guidance else ""
        done = "\n".join(f"Step {number}: {one_line(step)}" for number, step in enumerate(past, 1)) or "None"
        return f"{_REQUEST}\n\nInstruction: {instruction}{hints}\n\nPrevious actions:\n{done}"

    def _words(self, call: CallText) -> Words:
        thought, label, sentence = call.before.rpartition(_LABEL)
        order = (sentence if label else call.before).strip()
        return Words(thought.strip() if label else "", order, order)

    def _around(self, call: str, words: Words) -> str:
        return f"{_LABEL} {words.order}\n{call}"


def _place(action: Action, screen: Size) -> str:
    """Where an action presses, as a phrase; empty if it presses nothing."""
    point = pressed_point(action)
    if point is None:
        return ""
    across = ("left", "", "right")[min(3 * point[0] // screen.width, 2)]
    down = ("top", "", "bottom")[min(3 * point[1] // screen.height, 2)]
    where = f"at the {down} {across}".strip() if across or down else "in the middle"
    return f"the element {' '.join(where.split())}"


def _unquoted(sentence: str) -> str:
    inner = sentence.removeprefix('"').removesuffix('"')
    return inner.strip() if len(sentence) - len(inner) == 2 else sentence


MOBILE_2_5 = _Qwen25(MOBILE_USE, _MOBILE_2_5, _ASSISTANT + mobile_message(_MOBILE_2_5, with_human_name=True))
DESKTOP_2_5 = _Qwen25(COMPUTER_USE, _COMPUTER_2_5, _ASSISTANT + computer_message(_COMPUTER_2_5))
MOBILE_3 = _Qwen3(MOBILE_USE, _MOBILE_3, mobile_message(_MOBILE_3, with_human_name=False) + _FORM_3)
DESKTOP_3 = _Qwen3(COMPUTER_USE, _COMPUTER_3, computer_message(_COMPUTER_3) + _FORM_3)
MOBILE_GUI_OWL = _GuiOwl15(
    MOBILE_USE, tuple(MOBILE_ACTIONS), mobile_message(MOBILE_ACTIONS, with_human_name=True) + _FORM_1_5
)
DESKTOP_GUI_OWL = _GuiOwl15(COMPUTER_USE, tuple(COMPUTER_ACTIONS), computer_message(COMPUTER_ACTIONS) + _FORM_1_5)
