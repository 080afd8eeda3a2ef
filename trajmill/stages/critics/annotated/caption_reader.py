"""Reads an episode's captions line by line; it never reads a screen."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.annotated.slots import same_value
from trajmill.stages.critics.annotated.wording import shared_stems
from trajmill.stages.critics.trees.caption import NO_EFFECT
from trajmill.stages.critics.trees.screen_state import WAYS_BACK

_TEXT = r'("(?:[^"\\]|\\.)*")'
_PAGE = re.compile(rf"(?:^(?:Screen|Form)|opened) {_TEXT} of {_TEXT}")
_CHANGE = re.compile(rf"(choice|toggle|stepper|field) {_TEXT} is now {_TEXT} instead of {_TEXT}")
_SHOWS = re.compile(rf"shows {_TEXT}")
_HAS_NO_LONGER = re.compile(rf"no longer has {_TEXT}")
_TAPPED = re.compile(rf"^(?:Tapped|Held) (\w+(?: \w+)*) {_TEXT}")
_LIST_CHANGED = "the list has changed"
_CONTROLS = ("radio", "switch", "checkbox", "stepper button", "text field", "search field", "menu")


class CaptionChange(NamedTuple):
    """The first old and the last new value of one control."""

    kind: str
    old: str
    new: str

    def answers(self, name: str, slot: Slot) -> bool:
        """Whether a control of this name then has the value that a constraint asks for."""
        if self.kind == "toggle":
            same_name = bool(shared_stems(name, slot.name.replace("_", " ")))
            return (same_value(self.new, slot.value) and same_name) or (self.new == "on" and name == slot.value)
        return same_value(self.new, slot.value)


class CaptionEvent(NamedTuple):
    """What happened in one line, as far as it may submit something."""

    page: str
    """The page on which it happened."""
    label: str
    """Text of the tapped element; empty if none was tapped."""
    role: str
    opened: str
    """The page that was opened; empty if none was."""
    title: str
    """Title of the opened page."""
    presses_forward: bool
    """An element that does not lead back was tapped."""
    changes_page_in_place: bool
    """The content of the page has changed, and no other page was opened."""
    replaces_value: bool
    """A value has replaced another one."""


@dataclass(slots=True)
class CaptionReader:
    """What the lines so far report."""

    page: str = ""
    visited: set[str] = field(default_factory=set)
    forms: set[str] = field(default_factory=set)
    """Pages whose caption says that they are forms."""
    changed: dict[tuple[str, str], CaptionChange] = field(default_factory=dict)
    """The changed controls, by page and name of the control."""
    tapped: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By page, role and text of the tapped elements that are no controls, oldest first."""
    shown: list[tuple[str, str]] = field(default_factory=list)
    """Page and text of the values that appeared."""

    def read(self, line: str) -> CaptionEvent:
        """Read one line."""
        tapped = _TAPPED.match(line)
        role, label = (tapped[1], _plain(tapped[2])) if tapped else ("", "")
        if tapped and role not in _CONTROLS and (role == "list item" or NO_EFFECT not in line):
            self.tapped.setdefault(self.page, []).append((role, label))
        for kind, name, new, old in _CHANGE.findall(line):
            place = (self.page, _plain(name))
            first = self.changed[place].old if place in self.changed else _plain(old)
            self.changed[place] = CaptionChange(kind, first, _plain(new))
        texts = [_plain(text) for text in _SHOWS.findall(line)]
        gone = len(_HAS_NO_LONGER.findall(line))
        opened = _PAGE.search(line)
        page, title = (_plain(opened[2]), _plain(opened[1])) if opened else ("", "")
        presses_forward = tapped is not None and label not in WAYS_BACK
        changes_page_in_place = (
            presses_forward and not opened and role not in _CONTROLS and bool(texts or _LIST_CHANGED in line)
        )
        event = CaptionEvent(
            self.page, label, role, page, title, presses_forward, changes_page_in_place, 0 < gone == len(texts)
        )
        self._enter_page(page, line)
        self.shown += [(self.page, text) for text in texts]
        return event

    def _enter_page(self, page: str, line: str) -> None:
        if page:
            self.page = page
            self.visited.add(page)
            if line.startswith("Form"):
                self.forms.add(page)

    def picked(self, slot: Slot, slots: Sequence[Slot]) -> bool | None:
        """Whether the value was tapped and no other element of the same role after it; None if it was never tapped."""
        taps = self.tapped.get(slot.page, [])
        hits = [at for at, (_, text) in enumerate(taps) if same_value(text, slot.value)]
        if not hits:
            return None
        others = [other.value for other in slots if other.page == slot.page]
        later = [text for role, text in taps[hits[-1] + 1 :] if role == taps[hits[-1]][0]]
        return all(any(same_value(text, other) for other in others) for text in later)


def _plain(literal: str) -> str:
    text = json.loads(literal)
    assert isinstance(text, str)
    return text
