"""The dialect "read aloud": a reply names the wanted row, lists the rows of the screen up to it, then acts.

    find Lemon <r0> Banana <r1> Lemon <do> click <x6> <y11>

It is for vision-language models of a few hundred thousand weights, which have one token for each word. If they have to
press at once, they never learn to connect a word with its place; if they read the rows first, they do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from trajmill.schemas.actions import Action, Click, Scroll, Swipe, SystemButton, Terminate, TypeText, Wait
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import READ_ALOUD, ParseFailure, Reply, dialect_seen_in
from trajmill.schemas.dialects.tool_call import are_storable, refusal, written_extent, written_position
from trajmill.schemas.text import one_line

FIND: Final = "find"
"""Begins a thought that looks for a row: each row is then compared with one label, not with the whole instruction."""
DO: Final = "<do>"
"""The mark between the rows and the action."""
MOST_ROWS: Final = 32
"""Most rows of one screen that can be listed."""
MOST_PLACES: Final = 48
"""Most positions on each axis; each has a word."""
ROW = re.compile(r"<r\d+>")
_PLACE = re.compile(r"<x(\d{1,4})> <y(\d{1,4})>")
_DONE: Final = "Done: "
_SYSTEM = f"""You operate a device. Write {FIND} and the row you want; read the rows from the top up to it.
Then write {DO} and one action: click PLACE, double_click PLACE, swipe PLACE PLACE, scroll_up PLACE, scroll_down PLACE,
type WORDS, enter WORDS, back, home, menu, confirm, wait, done or give_up.
A place is <xN> <yN>, in patches of 14 pixels; the screen has {{screen}} of them."""

_CLICKS: Final = {"click": 1, "double_click": 2}
_TURNS: Final = {"scroll_up": 5, "scroll_down": -5}
_PLAIN: Final = MappingProxyType[str, Action](
    {
        "back": SystemButton(button="Back"),
        "home": SystemButton(button="Home"),
        "menu": SystemButton(button="Menu"),
        "confirm": SystemButton(button="Enter"),
        "wait": Wait(),
        "done": Terminate(status="success"),
        "give_up": Terminate(status="failure"),
    }
)
_CLICK_OF: Final = {count: word for word, count in _CLICKS.items()}
_TURN_OF: Final = {clicks: word for word, clicks in _TURNS.items()}
_TYPED: Final = {"type": False, "enter": True}
ACTION_WORDS: Final = (*_CLICKS, *_TURNS, *_TYPED, *_PLAIN, "swipe")
"""The first words of all actions."""


@dataclass(frozen=True)
class ReadAloud:
    def system_prompt(self, frame: CoordinateFrame) -> str:
        return _SYSTEM.replace("{screen}", written_extent(frame), 1)

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        lines = [one_line(instruction), *(guidance.split("\n") if guidance else ())]
        return "\n".join((*lines, _DONE + " ; ".join(map(one_line, past))))

    def parse(self, text: str, frame: CoordinateFrame) -> Reply | ParseFailure:
        thought, mark, call = text.partition(DO)
        if not mark:
            seen = dialect_seen_in(text)
            return ParseFailure(
                f"the reply is written as {seen} writes, not as {READ_ALOUD}" if seen else f"the reply has no {DO}"
            )
        thought, call = thought.strip(), " ".join(call.split())
        action = _read(call, frame) if are_storable(text) else None
        if action is None:
            return ParseFailure(f"no action after {DO}: {call!r:.60}")
        return Reply(thought, action, _remembered(thought, call), f"it has several {DO}" if DO in call else "")

    def render(self, reply: Reply, frame: CoordinateFrame) -> str:
        """Write a reply; its conclusion follows from it. Raises NotExpressible if the action is not expressible."""
        text = f"{spoken(reply.thought)} {DO} {_written(reply.action, frame)}".strip()
        if not are_storable(text):
            raise refusal(READ_ALOUD, reply.action)
        return text


def rows_aloud(labels: Sequence[str], wanted: str = "") -> str:
    """The thought that looks for a label, if any is wanted, and lists the rows from the top, at most `MOST_ROWS`."""
    rows = [f"<r{row}> {spoken(label)}".strip() for row, label in enumerate(labels[:MOST_ROWS])]
    return " ".join([f"{FIND} {spoken(wanted)}", *rows] if wanted else rows)


def spoken(text: str) -> str:
    return one_line(text.replace(DO, " "))


def _remembered(thought: str, call: str) -> str:
    """The conclusion of a step for later prompts: the last listed row if the step presses something, else the call."""
    if call.partition(" ")[0] in _CLICKS:
        return ROW.split(thought)[-1].strip() or call
    return _PLACE.sub("", call).strip()


def _read(call: str, frame: CoordinateFrame) -> Action | None:
    name, _, rest = call.partition(" ")
    if name in _TYPED:
        return TypeText(text=rest, enter=_TYPED[name]) if rest else None
    if not rest:
        return _PLAIN.get(name)
    points = [frame.to_pixels(float(place[1]), float(place[2])) for place in _PLACE.finditer(rest)]
    if _PLACE.sub("", rest).strip():
        return None
    match points:
        case [(x, y)] if name in _CLICKS:
            return Click(x=x, y=y, count=_CLICKS[name])
        case [(x, y)] if name in _TURNS:
            return Scroll(x=x, y=y, clicks=_TURNS[name])
        case [(x, y), (x2, y2)] if name == "swipe":
            return Swipe(x=x, y=y, x2=x2, y2=y2)
    return None


def _written(action: Action, frame: CoordinateFrame) -> str:
    match action:
        case Click(button="left", count=1 | 2 as count):
            return f"{_CLICK_OF[count]} {_place(action.x, action.y, frame)}"
        case Scroll(x=int() as x, y=int() as y, clicks=5 | -5 as clicks):
            return f"{_TURN_OF[clicks]} {_place(x, y, frame)}"
        case Swipe():
            return f"swipe {_place(action.x, action.y, frame)} {_place(action.x2, action.y2, frame)}"
        case TypeText(clear=False, text=text) if text and text == one_line(text):
            return f"{'enter' if action.enter else 'type'} {text}"
        case _ if action in _PLAIN.values():
            return next(word for word, plain in _PLAIN.items() if plain == action)
        case _:
            raise refusal(READ_ALOUD, action)


def _place(x: int, y: int, frame: CoordinateFrame) -> str:
    column, row = written_position(x, y, frame)
    return f"<x{column}> <y{row}>"
