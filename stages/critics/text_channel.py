"""The text channel: reasons over captions alone, never over a screen (paper 6.3).

The report is what a language model would be sent: a caption of the first screen and one line per step. The embedded
reasoner reads the same lines back, so that everything it knows has gone through words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.episode import Episode
from schemas.observation import ScreenReader
from schemas.query import Slot
from schemas.verdict import Channel
from stages.critics.base import StepResult, Vote
from stages.critics.caption import NO_EFFECT, caption_screen, caption_step
from stages.critics.plan import parts_of
from stages.critics.replay import TaskView, replay, task_view
from stages.critics.signals import vote
from stages.critics.slots import mentions, same_value, shared_words

_TEXT = r'("(?:[^"\\]|\\.)*")'
_PAGE = re.compile(rf"(?:^Screen|opened) {_TEXT} of {_TEXT}")
_CHANGE = re.compile(rf"{_TEXT} is now {_TEXT} instead of {_TEXT}")
_SHOWS = re.compile(rf"shows {_TEXT}")
_TAPPED = re.compile(rf"^(?:Tapped|Held) (\w+(?: \w+)*) {_TEXT}")
_CONTROLS = ("radio", "switch", "checkbox", "stepper button", "text field", "search field")
_ENDED = re.compile(r'^(?:Ended with "success"|Answered )')


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
    story = _Story()
    for line in report:
        story.read(line)
    receipts = [part.receipt for part in parts_of(task) if part.receipt is not None]
    problems = [f"{page} was never reached" for page in receipts if page not in story.reached]
    problems += [f"{page} was reached by {n} buttons" for page, n in story.sent.items() if page in receipts and n > 1]
    problems += [
        f'nothing tells of "{slot.value}" for {slot.name}' for slot in task.slots if not story.tells(slot, task.slots)
    ]
    return problems + story.unasked(task.slots)


@dataclass(slots=True)
class _Story:
    """What the lines read so far tell."""

    page: str = ""
    reached: set[str] = field(default_factory=set)
    sent: dict[str, int] = field(default_factory=dict)
    """By page: how often a button led there."""
    changed: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """By page and name: the first old and the last new value."""
    tapped: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By page: role and words of what was tapped with an effect and is no control, oldest first."""
    shown: list[str] = field(default_factory=list)

    def read(self, line: str) -> None:
        tapped = _TAPPED.match(line)
        if tapped and tapped[1] not in _CONTROLS and NO_EFFECT not in line:
            self.tapped.setdefault(self.page, []).append((tapped[1], _plain(tapped[2])))
        for name, new, old in _CHANGE.findall(line):
            place = (self.page, _plain(name))
            first, _ = self.changed.get(place, (_plain(old), ""))
            self.changed[place] = (first, _plain(new))
        self.shown += [_plain(text) for text in _SHOWS.findall(line)]
        opened = _PAGE.search(line)
        if opened:
            self.page = _plain(opened[2])
            self.reached.add(self.page)
            if tapped and tapped[1] in ("button", "menu item", "link"):
                self.sent[self.page] = self.sent.get(self.page, 0) + 1

    def tells(self, slot: Slot, slots: Sequence[Slot]) -> bool:
        if any(page == slot.page and _answers(name, new, slot) for (page, name), (_, new) in self.changed.items()):
            return True
        picked = self._picked(slot, slots)
        return picked if picked is not None else any(mentions(text, slot.value) for text in self.shown)

    def _picked(self, slot: Slot, slots: Sequence[Slot]) -> bool | None:
        """Whether the value was tapped and nothing else of its kind after it; None if it never was."""
        taps = self.tapped.get(slot.page, [])
        hits = [at for at, (_, text) in enumerate(taps) if same_value(text, slot.value)]
        if not hits:
            return None
        others = [other.value for other in slots if other.page == slot.page]
        later = [text for role, text in taps[hits[-1] + 1 :] if role == taps[hits[-1]][0]]
        return all(any(same_value(text, other) for other in others) for text in later)

    def unasked(self, slots: Sequence[Slot]) -> list[str]:
        return [
            f'"{name}" was changed to "{new}"'
            for (page, name), (old, new) in self.changed.items()
            if old != new and not any(page == slot.page and _answers(name, new, slot) for slot in slots)
        ]


def _answers(name: str, value: str, slot: Slot) -> bool:
    if not same_value(value, slot.value):
        return value == "on" and same_value(name, slot.value)
    return value not in ("on", "off") or bool(shared_words(name, slot.name))


def _plain(literal: str) -> str:
    text = json.loads(literal)
    assert isinstance(text, str)
    return text
