"""The dialect of GUI-R1, the Executor of CES (paper CES, 4.3 and C): a thought, then one answer.

    <think>The Zoom icon is visible.</think>
    <answer>[{'action': 'click', 'point': [669, 976], 'input_text': 'no input text'}]</answer>

Action names, keys and defaults are the published ones; positions are pixels of the resized image. A `scroll` has a
direction only, so of all swipes just the one that it is read as can be written. `select` and `close/delete` belong to
data sets of web pages, and are no action here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.schemas import actions
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import GUI_R1, ParseFailure, Reply, dialect_seen_in
from trajmill.schemas.dialects.tool_call import Arguments, ArgumentsError, are_storable, refusal, written_position
from trajmill.schemas.geometry import Size
from trajmill.schemas.text import one_line

_NAMES: Final = "complete, close/delete, press_home, click, press_back, type, select, scroll, enter"
_NO_TEXT, _NO_POINT = "no input text", [-100, -100]
_TASK = """In this UI screenshot, I want you to continue executing the command '{instruction}', with the action \
history being '{history}'.{hints}
Give the action to perform (one of [{names}]), the point where the cursor is moved to (integer) if it is a click, and \
the input text of a type, or the direction of a scroll (UP, DOWN, LEFT, RIGHT).
Think within <think> </think> tags, then answer within <answer> </answer> tags, in this form:
<think> ... </think> <answer>[{'action': ..., 'point': [x, y], 'input_text': 'no input text'}]</answer>
An action without a point has the point [-100, -100]."""
_FORM = re.compile(r"\s*<think>(.*?)</think>\s*<answer>(.*?)</answer>\s*", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|$)", re.DOTALL)
_WAYS: Final = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_LONGEST: Final = 20_000
_WHEEL_CLICKS: Final = 5
_BUTTONS: Final[Mapping[str, actions.SystemButton]] = {
    "press_home": actions.SystemButton(button="Home"),
    "press_back": actions.SystemButton(button="Back"),
    "enter": actions.SystemButton(button="Enter"),
}


class _Answer(Arguments):
    def point(self) -> dict[str, int]:
        return dict(self.position("point")._asdict())

    @property
    def name(self) -> str:
        return self.word("action").strip().replace(" ", "_")

    @property
    def is_placed(self) -> bool:
        return self.values.get("point") not in (None, [], _NO_POINT)


@dataclass(frozen=True)
class GuiR1:
    phone: bool

    def system_prompt(self, frame: CoordinateFrame) -> str:
        return "You are a helpful assistant."

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        """Write the format and the task; the history is the earlier actions, `None` without any."""
        history = "; ".join(f"Step {number}: {one_line(step)}" for number, step in enumerate(past, 1)) or "None"
        hints = f"\nGuidance:\n{guidance.strip()}" if guidance else ""
        fields = {"{instruction}": instruction, "{history}": history, "{hints}": hints, "{names}": _NAMES}
        return re.sub("|".join(map(re.escape, fields)), lambda found: fields[found[0]], _TASK)

    def parse(self, text: str, frame: CoordinateFrame) -> Reply | ParseFailure:
        seen = dialect_seen_in(text)
        found = _ANSWER.search(text)
        if seen not in ("", GUI_R1) or found is None:
            wrong = f"the reply is written as {seen} writes, not as {GUI_R1}" if seen else "the reply has no <answer>"
            return ParseFailure(wrong)
        thought = text[: found.start()].replace("<think>", "").replace("</think>", "").strip()
        try:
            answer = _Answer(_dictionary(found[1]), frame)
            action = self._read(answer)
        except ArgumentsError as error:
            return ParseFailure(str(error))
        if not are_storable(thought):
            return ParseFailure("the reply is not valid Unicode")
        slip = "" if _FORM.fullmatch(text) else "it is not one <think> and one <answer>"
        return Reply(thought, action, _said(answer), slip)

    def render(self, reply: Reply, frame: CoordinateFrame) -> str:
        """Write a reply as the model would. Raises NotExpressible if the dialect cannot express the action."""
        name, point, said = self._written(reply.action, frame)
        if not are_storable(said):
            raise refusal(GUI_R1, reply.action)
        # A typed "</answer>" must not end the answer.
        literal = f"{{'action': {name!r}, 'point': {point}, 'input_text': {said!r}}}".replace("<", "\\u003c")
        return f"<think>{reply.thought.strip().replace('<', '‹')}</think>\n<answer>[{literal}]</answer>"

    def _read(self, answer: _Answer) -> actions.Action:
        match answer.name:
            case "click":
                return actions.Click(**answer.point())
            case "type":
                return actions.TypeText(text=answer.text("input_text"))
            case "scroll":
                return self._scroll(answer)
            case "complete":
                return actions.Terminate(status="success")
            case "enter" if not self.phone:
                return actions.PressKeys(keys=("enter",))
            case _ if self.phone and answer.name in _BUTTONS:
                return _BUTTONS[answer.name]
            case _:
                raise ArgumentsError(f"{GUI_R1} has no action {answer.name!r:.40} here")

    def _scroll(self, answer: _Answer) -> actions.Action:
        direction = answer.word("input_text").strip().casefold()
        if direction not in _WAYS:
            raise ArgumentsError("input_text of scroll is not UP, DOWN, LEFT or RIGHT")
        if self.phone:
            return _swipe(direction, answer.frame.screen)
        at = answer.point() if answer.is_placed else {}
        clicks = _WHEEL_CLICKS if direction in ("up", "right") else -_WHEEL_CLICKS
        turned = actions.Scroll if direction in ("up", "down") else actions.HorizontalScroll
        return turned(clicks=clicks, **at)

    def _written(self, action: actions.Action, frame: CoordinateFrame) -> tuple[str, Sequence[float], str]:
        match action:
            case actions.Click(button="left", count=1, x=x, y=y):
                return "click", written_position(x, y, frame), _NO_TEXT
            case actions.TypeText(clear=False, enter=False, text=text):
                return "type", _NO_POINT, text
            case actions.Swipe() if self.phone and action == _swipe(actions.scroll_direction(action), frame.screen):
                return "scroll", _NO_POINT, actions.scroll_direction(action).upper()
            case actions.Scroll(x=x, y=y) | actions.HorizontalScroll(x=x, y=y) if not self.phone:
                if abs(action.clicks) == _WHEEL_CLICKS and (x is None) == (y is None):
                    at = _NO_POINT if x is None or y is None else written_position(x, y, frame)
                    return "scroll", at, actions.scroll_direction(action).upper()
            case actions.Terminate(status="success"):
                return "complete", _NO_POINT, _NO_TEXT
            case actions.PressKeys(keys=("enter",)) if not self.phone:
                return "enter", _NO_POINT, _NO_TEXT
            case actions.SystemButton() if self.phone and action in _BUTTONS.values():
                return next(name for name, each in _BUTTONS.items() if each == action), _NO_POINT, _NO_TEXT
        raise refusal(GUI_R1, action)


def _swipe(direction: str, screen: Size) -> actions.Swipe:
    x, y = screen.width // 2, screen.height // 2
    right, down = _WAYS[direction]
    across, along = right * (screen.width // 4), down * (screen.height // 4)
    return actions.Swipe(x=x + across, y=y + along, x2=x - across, y2=y - along)


def _dictionary(text: str) -> dict[str, Any]:
    """The one dictionary of an answer, in a list or alone; literals only."""
    try:
        value = ast.literal_eval(text.strip()) if len(text) <= _LONGEST else None
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise ArgumentsError("the answer is no list of one dictionary") from error
    match value:
        case [dict() as found] | (dict() as found):
            return found
        case _:
            raise ArgumentsError("the answer is no list of one dictionary")


def _said(answer: _Answer) -> str:
    """The action in a few words, for the history of later prompts."""
    at = str(answer.values["point"]) if answer.is_placed else ""
    return one_line(f"{answer.name} {at} {answer.word('input_text').replace(_NO_TEXT, '')}")
