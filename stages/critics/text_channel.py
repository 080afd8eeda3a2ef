"""The text channel: reasons over captions alone, never over a screen (paper 6.3).

The report is what a language model would be sent: a caption of the first screen and one line per step. The embedded
reasoner reads the same lines back, so that everything it knows has gone through words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.episode import Episode
from schemas.observation import ScreenReader
from schemas.query import Slot
from schemas.verdict import Channel
from stages.critics.base import StepResult, Vote
from stages.critics.caption import NO_EFFECT, caption_screen, caption_step
from stages.critics.facts import Control
from stages.critics.plan import Part, asked_in_words, pages_from, parts_of
from stages.critics.replay import TaskView, replay, task_view
from stages.critics.signals import vote
from stages.critics.slots import same_value
from stages.critics.wording import mentions, shared_stems, title_says_done

_TEXT = r'("(?:[^"\\]|\\.)*")'
_PAGE = re.compile(rf"(?:^Screen|opened) {_TEXT} of {_TEXT}")
_CHANGE = re.compile(rf"(choice|toggle|stepper|field) {_TEXT} is now {_TEXT} instead of {_TEXT}")
_SHOWS = re.compile(rf"shows {_TEXT}")
_TAPPED = re.compile(rf"^(?:Tapped|Held) (\w+(?: \w+)*) {_TEXT}")
_ENDED = re.compile(r'^(?:Ended with "success"|Answered )')
_LIST_CHANGED = "the list has changed"
_CONTROLS = ("radio", "switch", "checkbox", "stepper button", "text field", "search field")
_WAYS_BACK = ("Back", "Close")


class CaptionChannel:
    """Judges by captions; needs no model."""

    channel = Channel.TEXT
    resolution = "full"
    version = "caption-channel-1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult]) -> Vote:
        """Judge a finished episode by its captions.

        Raises:
            schemas.errors.JudgeFailure: a screen is missing, so that it cannot be captioned.
        """
        problems = reason_over(task_view(episode.query), report_of(episode, screens))
        return vote(problems, "the steps did all that was asked and nothing else", steps)


def report_of(episode: Episode, screens: ScreenReader) -> list[str]:
    """The episode in words: a caption of the first screen, then a line per step."""
    seen_steps = replay(episode, screens)
    if not seen_steps:
        return []
    first = caption_screen(seen_steps[0].outcome.before)
    return [first, *(caption_step(step.deed, step.outcome) for step in seen_steps)]


def reason_over(task: TaskView, report: Sequence[str]) -> list[str]:
    """Why the report does not tell of the task being done, in words; empty if it does."""
    if not report or not _ENDED.match(report[-1]):
        return ["the agent did not say that it was done"]
    story = _Story(task)
    for line in report:
        story.read(line)
    parts = parts_of(task)
    problems = [f"{part.receipt} was never reached" for part in parts if part.receipt and not story.sent(part.receipt)]
    problems += [f"{part.receipt} came up again" for part in parts if part.receipt and story.sent(part.receipt) > 1]
    problems += [f'nothing tells of "{s.value}" for {s.name}' for s in task.slots if not story.tells(s)]
    problems += [f"nothing was done on {part.open_page}" for part in parts if not story.worked(part.open_page)]
    return problems + story.unasked(parts) + [f'something else was done: "{title}"' for title in story.other]


class _Change(NamedTuple):
    """The first old and the last new value of one control."""

    kind: str
    old: str
    new: str


@dataclass(slots=True)
class _Story:
    """What the lines read so far tell."""

    task: TaskView
    page: str = ""
    arrivals: dict[str, int] = field(default_factory=dict)
    """By page: how often a tap other than one on the way back led there."""
    changed: dict[tuple[str, str], _Change] = field(default_factory=dict)
    """By page and name of the control."""
    tapped: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By page: role and words of what was tapped with an effect and is no control, oldest first."""
    shown: list[tuple[str, str]] = field(default_factory=list)
    """Page and text of the values that came up."""
    pressed: list[tuple[str, str]] = field(default_factory=list)
    """Page and words of what was tapped and changed what its page shows."""
    other: list[str] = field(default_factory=list)
    """Titles that tell of something done outside the task."""

    def read(self, line: str) -> None:
        tapped = _TAPPED.match(line)
        if tapped and tapped[1] not in _CONTROLS and (tapped[1] == "list item" or NO_EFFECT not in line):
            self.tapped.setdefault(self.page, []).append((tapped[1], _plain(tapped[2])))
        for kind, name, new, old in _CHANGE.findall(line):
            place = (self.page, _plain(name))
            first = self.changed[place].old if place in self.changed else _plain(old)
            self.changed[place] = _Change(kind, first, _plain(new))
        onwards = tapped is not None and _plain(tapped[2]) not in _WAYS_BACK
        texts = [_plain(text) for text in _SHOWS.findall(line)]
        opened = _PAGE.search(line)
        if opened:
            self._arrive(_plain(opened[1]), _plain(opened[2]), onwards)
        elif onwards and tapped is not None and tapped[1] not in _CONTROLS and (texts or _LIST_CHANGED in line):
            self.pressed.append((self.page, _plain(tapped[2])))
        self.shown += [(self.page, text) for text in texts]

    def _arrive(self, title: str, page: str, onwards: bool) -> None:
        if onwards and page != self.page:
            self.arrivals[page] = self.arrivals.get(page, 0) + 1
            if page not in self.task.pages and title_says_done(title):
                self.other.append(title)
        self.page = page

    def sent(self, page: str) -> int:
        """How often a tap led to a page."""
        return self.arrivals.get(page, 0)

    def worked(self, page: str | None) -> bool:
        """Whether something was set, or done on the spot, on a page; True where there is none."""
        return (
            page is None
            or any(place == page for place, _ in self.changed)
            or any(place == page and shared_stems(label, self.task.instruction) for place, label in self.pressed)
        )

    def tells(self, slot: Slot) -> bool:
        """Whether the report tells of a constraint being met."""
        if any(page == slot.page and _answers(name, change, slot) for (page, name), change in self.changed.items()):
            return True
        picked = self._picked(slot)
        if picked is not None:
            return picked
        later = pages_from(slot, self.task)
        if any(page in later and mentions(text, slot.value) for page, text in self.shown):
            return True
        return not slot.said and slot.page not in self.arrivals and slot.page not in self.tapped

    def _picked(self, slot: Slot) -> bool | None:
        """Whether the value was tapped and nothing else of its kind after it; None if it never was."""
        taps = self.tapped.get(slot.page, [])
        hits = [at for at, (_, text) in enumerate(taps) if same_value(text, slot.value)]
        if not hits:
            return None
        others = [other.value for other in self.task.slots if other.page == slot.page]
        later = [text for role, text in taps[hits[-1] + 1 :] if role == taps[hits[-1]][0]]
        return all(any(same_value(text, other) for other in others) for text in later)

    def unasked(self, parts: Sequence[Part]) -> list[str]:
        """What was changed for good, or done on the spot, though nobody asked."""
        home = {page: part for part in parts for page in part.pages}
        found = [
            f'"{name}" was changed to "{change.new}"'
            for (page, name), change in self.changed.items()
            if change.old != change.new and not self._asked(page, name, change, home.get(page))
        ]
        return found + [f'"{label}" was pressed' for label in self._needless(home)]

    def _needless(self, home: Mapping[str, Part]) -> list[str]:
        """What was tapped, and changed what its page shows, though nobody asked or too often."""
        found, entered = [], set()
        for page, label in self.pressed:
            part = home.get(page)
            if part is not None and self._is_entered(page, part) and page not in entered:
                entered.add(page)
            elif any(slot.page == page and same_value(label, slot.value) for slot in self.task.slots):
                continue
            elif part is None or page != part.open_page or not shared_stems(label, self.task.instruction):
                found.append(label)
        return found

    def _is_entered(self, page: str, part: Part) -> bool:
        """Whether what is typed on a page has to be sent off on the spot, as nothing comes after it."""
        fields = any(place == page and change.kind == "field" for (place, _), change in self.changed.items())
        return fields and part.receipt is None and page == part.pages[-1]

    def _asked(self, page: str, name: str, change: _Change, part: Part | None) -> bool:
        if any(page == slot.page and _answers(name, change, slot) for slot in self.task.slots):
            return True
        return part is not None and asked_in_words(Control("", change.kind, name, change.new), page, self.task, part)


def _answers(name: str, change: _Change, slot: Slot) -> bool:
    if change.kind == "toggle":
        same_name = bool(shared_stems(name, slot.name.replace("_", " ")))
        return (same_value(change.new, slot.value) and same_name) or (change.new == "on" and name == slot.value)
    return same_value(change.new, slot.value)


def _plain(literal: str) -> str:
    text = json.loads(literal)
    assert isinstance(text, str)
    return text
