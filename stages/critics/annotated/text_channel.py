"""The text channel: reasons over captions alone, never over a screen (paper 6.3).

The report is what a language model would be sent: a caption of the first screen, then a line per step and a caption of
each page that it opened. The embedded reasoner reads the same lines back, so that everything it knows has gone through
words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.query import Slot
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.annotated.caption_reader import CaptionReader, Change, Event
from trajmill.stages.critics.annotated.signals import vote
from trajmill.stages.critics.annotated.slots import same_value, slots_on
from trajmill.stages.critics.annotated.task import Part, asked_in_words, is_about, judged_task, pages_from, parts_of
from trajmill.stages.critics.annotated.wording import mentions, repeats_harmlessly, title_says_done
from trajmill.stages.critics.base import StepResult, Vote
from trajmill.stages.critics.trees.replay import TaskView, replay, seen
from trajmill.stages.critics.trees.screen_state import Control

_ENDED = re.compile(r'^(?:Ended with "success"|Answered )')


class AnnotatedTextChannel:
    """Judges by captions; needs no model."""

    channel = Channel.TEXT
    resolution = "full"
    version = "caption-channel-1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Judge a finished episode by its captions.

        Raises:
            JudgeFailure: a screen is missing, or only the words of the task are known.
        """
        problems = reason_over(judged_task(episode.query), report_of(episode, screens))
        return vote(problems, "the steps did all that was asked and nothing else", steps)


def report_of(episode: Episode, screens: ScreenReader) -> list[str]:
    """The episode in words: a caption of the first screen, then a line per step, and one per page that it opened."""
    reader = seen(screens)
    lines: list[str] = []
    for step in replay(episode, reader):
        if not lines:
            lines.append(reader.caption(step.outcome.before.screen_id))
        lines.append(step.caption)
        if step.outcome.opened:
            lines.append(reader.caption(step.outcome.after.screen_id))
    return lines


def reason_over(task: TaskView, report: Sequence[str]) -> list[str]:
    """Why the report does not tell of the task being done, in words; empty if it does."""
    if not report or not _ENDED.match(report[-1]):
        return ["the agent did not say that it was done"]
    reasoner = _Reasoner(task)
    for line in report:
        reasoner.read(line)
    return reasoner.problems + reasoner.at_the_end()


class _Reasoner:
    """Takes down what is wrong when the report tells that something is sent off, and at its end."""

    def __init__(self, task: TaskView) -> None:
        self.problems: list[str] = []
        self._task = task
        self._parts = parts_of(task)
        self._home = {page: part for part in self._parts for page in part.pages}
        self._reader = CaptionReader()
        self._sent: dict[str, list[str]] = {}
        """By last page of a part: what was sent off, oldest first."""

    def read(self, line: str) -> None:
        event = self._reader.read(line)
        if event.onwards and event.opened and event.opened != event.page:
            self._arrive(event)
        elif event.works:
            self._work(event)

    def _arrive(self, event: Event) -> None:
        part = self._home.get(event.opened)
        if part is None and title_says_done(event.title):
            self.problems.append(f'something else was done: "{event.title}"')
        elif part is not None and event.opened == part.receipt:
            self._commit(part, event.title)

    def _work(self, event: Event) -> None:
        part, slots = self._home.get(event.page), slots_on(event.page, self._task.slots)
        if any(same_value(event.label, slot.value) for slot in slots):
            return
        if part is not None and (self._is_entered(event.page, part) or self._is_meant(event, part)):
            self._commit(part, event.label)
        elif not (event.replaces and event.role == "list item" and slots):
            self.problems.append(f'"{event.label}" was pressed')

    def _is_meant(self, event: Event, part: Part) -> bool:
        return event.page == part.open_page and is_about(event.label, self._task)

    def _is_entered(self, page: str, part: Part) -> bool:
        """Whether what is typed on a page has to be sent off on the spot, as nothing comes after it."""
        fields = any(place == page and change.kind == "field" for (place, _), change in self._reader.changed.items())
        return fields and part.receipt is None and page == part.pages[-1]

    def _commit(self, part: Part, what: str) -> None:
        before = self._sent.setdefault(part.pages[-1], [])
        if before and (what not in before or not repeats_harmlessly(what)):
            self.problems.append(f'"{what}" was done after "{before[-1]}"')
        before.append(what)
        self.problems += self._wrong(part)

    def at_the_end(self) -> list[str]:
        found: list[str] = []
        for part in self._parts:
            if self._sent.get(part.pages[-1]):
                continue
            if part.receipt is not None:
                found.append(f"{part.receipt} was never reached")
            else:
                found += self._wrong(part)
            if part.open_page is not None and not self._is_changed(part.open_page):
                found.append(f"nothing was done on {part.open_page}")
        return found + [
            f'"{name}" was changed to "{change.new}" on {page}'
            for (page, name), change in self._reader.changed.items()
            if page not in self._home and page not in self._reader.forms and change.old != change.new
        ]

    def _is_changed(self, page: str) -> bool:
        return any(place == page and change.old != change.new for (place, _), change in self._reader.changed.items())

    def _wrong(self, part: Part) -> list[str]:
        found = [f'nothing tells of "{slot.value}" for {slot.name}' for slot in part.slots if not self._tells(slot)]
        return found + [
            f'"{name}" was changed to "{change.new}"'
            for (page, name), change in self._reader.changed.items()
            if page in part.pages and change.old != change.new and not self._asked(page, name, change, part)
        ]

    def _tells(self, slot: Slot) -> bool:
        """Whether the report tells of a constraint being met."""
        reader = self._reader
        if any(page == slot.page and change.answers(name, slot) for (page, name), change in reader.changed.items()):
            return True
        picked = reader.picked(slot, self._task.slots)
        if picked is not None:
            return picked
        later = pages_from(slot, self._task)
        if any(page in later and mentions(text, slot.value) for page, text in reader.shown):
            return True
        return not slot.said and slot.page not in reader.visited

    def _asked(self, page: str, name: str, change: Change, part: Part) -> bool:
        if any(page == slot.page and change.answers(name, slot) for slot in self._task.slots):
            return True
        return asked_in_words(Control("", change.kind, name, change.new), page, self._task, part)
