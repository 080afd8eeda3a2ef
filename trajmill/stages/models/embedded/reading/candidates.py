"""Lists the actions that a screen offers: presses, texts to type, and a few that are always possible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.actions import Action, Click, PressKeys, Scroll, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.models.embedded.reading.words import STOP_WORDS, tokens

MAX_PRESSES = 64
"""Most elements of a screen that become candidates; the others can be reached by scrolling."""
MAX_TYPED = 24
_LONGEST_SPAN = 3
_WHEEL_CLICKS = 3
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”")
_NOWHERE = Box(0, 0, 0, 0)


class CandidateAction(NamedTuple):
    """One action that can be chosen."""

    verb: str
    """`press`, `open` (double click), `type`, `down`, `up`, `back`, `home`, `enter` or `finish`."""
    text: str = ""
    """Label of the pressed element, or the text to type."""
    field: str = ""
    """Label of the group, stepper or input that it belongs to."""
    role: str = ""
    """Role of the element; for `type` the origin of the text: `quoted`, `noted` or `span`."""
    bounds: Box = _NOWHERE
    """Box of the pressed element, or of the scrolled list."""
    states: tuple[str, ...] = ()
    beside: str = ""
    """Text in the same row that cannot be pressed, e.g. the number of a stepper or the label of an input."""

    def action(self, *, phone: bool) -> Action:
        """The action of this candidate."""
        x, y = self.bounds.center
        match self.verb:
            case "press":
                return Click(x=x, y=y)
            case "open":
                return Click(x=x, y=y, count=2)
            case "type":
                return TypeText(text=self.text)
            case "down" | "up":
                return _scroll(self.bounds, down=self.verb == "down", phone=phone)
            case "back":
                return SystemButton(button="Back")
            case "home":
                return SystemButton(button="Home")
            case "enter":
                return SystemButton(button="Enter") if phone else PressKeys(keys=("enter",))
            case _:
                return Terminate(status="success")


def screen_candidates(elements: Sequence[UIElement], size: Size, *, phone: bool) -> list[CandidateAction]:
    """The candidates of a screen that do not depend on the task: presses, scrolls, system buttons, the end."""
    readable = [e for e in elements if e.role in ("text", "value") and "clickable" not in e.states]
    presses = [
        CandidateAction(
            "open" if element.role == "icon" and not phone else "press",
            element.text or element.value,
            element.value if element.text else "",
            element.role,
            element.bounds,
            element.states,
            _beside(element, readable),
        )
        for element in elements
        if "clickable" in element.states and "disabled" not in element.states
    ][:MAX_PRESSES]
    scrolls = [
        CandidateAction(verb, bounds=element.bounds, role=element.role)
        for element in elements
        for verb in ("down", "up")
        if f"scrollable_{verb}" in element.states
    ]
    focused = any("focused" in element.states for element in elements)
    on_launcher = any(element.role == "icon" for element in elements)
    always = [CandidateAction("finish")]
    if phone and not on_launcher:
        always += [CandidateAction("back"), CandidateAction("home")]
    if focused:
        always.append(CandidateAction("enter"))
    return presses + scrolls + always


def _beside(element: UIElement, readable: Sequence[UIElement]) -> str:
    """The value (without one, the text) of the first readable element whose middle lies in the element's row."""
    top, bottom = element.bounds.top, element.bounds.bottom
    return next((e.value or e.text for e in readable if top <= e.bounds.center.y < bottom), "")


def focused_field(elements: Sequence[UIElement]) -> UIElement | None:
    """The input that receives typed text; None without one."""
    return next((e for e in elements if "focused" in e.states and "editable" in e.states), None)


def typed_candidates(instruction: str, notes: Sequence[str], field: UIElement) -> list[CandidateAction]:
    """Texts to type into `field`: quoted parts of the instruction, noted values, then short sequences of words."""
    texts = {text: "quoted" for match in _QUOTED.finditer(instruction) if (text := (match[1] or match[2]).strip())}
    for note in notes:
        texts.setdefault(note, "noted")
    for span in _spans(_QUOTED.sub(" | ", instruction)):
        texts.setdefault(span, "span")
    label = field.text or field.value
    typed = [CandidateAction("type", text, label, origin, field.bounds) for text, origin in texts.items()]
    return typed[:MAX_TYPED]


def _spans(text: str) -> list[str]:
    """All sequences of one to three words within one clause that neither start nor end with a stop word."""
    found = tokens(text)
    breaks = [i > 0 and not text[found[i - 1].end : found[i].start].isspace() for i in range(len(found))]
    spans = []
    for length in range(1, _LONGEST_SPAN + 1):
        for first in range(len(found) - length + 1):
            last = first + length - 1
            inside = not any(breaks[first + 1 : last + 1])
            if inside and found[first].normal not in STOP_WORDS and found[last].normal not in STOP_WORDS:
                spans.append(text[found[first].start : found[last].end])
    return spans


def _scroll(area: Box, *, down: bool, phone: bool) -> Action:
    x, y = area.center
    if not phone:
        return Scroll(x=x, y=y, clicks=-_WHEEL_CLICKS if down else _WHEEL_CLICKS)
    reach = (area.bottom - area.top) * 3 // 8
    return Swipe(x=x, y=y + reach, x2=x, y2=y - reach) if down else Swipe(x=x, y=y - reach, x2=x, y2=y + reach)
