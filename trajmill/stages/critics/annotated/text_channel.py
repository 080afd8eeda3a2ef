"""The text channel without a model: reads captions of the trees, never a screen (paper 6.3).

The report is what a language model would get: a caption of the first screen, then a line for each step and a caption of
each page that it opened. The channel parses these lines, so everything that it knows was written in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.query import Slot
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.annotated.caption_reader import CaptionChange, CaptionEvent, CaptionReader
from trajmill.stages.critics.annotated.channel import AnnotatedChannel
from trajmill.stages.critics.annotated.problem_finder import ProblemFinder
from trajmill.stages.critics.annotated.task import AnnotatedTask, TaskPart, asked_in_words, pages_from
from trajmill.stages.critics.annotated.wording import mentions, title_says_done
from trajmill.stages.critics.trees.replay import replay, seen
from trajmill.stages.critics.trees.screen_state import Control

_ENDED = re.compile(r'^(?:Ended with "success"|Answered )')


class AnnotatedTextChannel(AnnotatedChannel):
    """Votes by captions."""

    channel = Channel.TEXT
    version = "caption-channel-1"
    reason_if_correct = "the steps did all that was asked and nothing else"

    def problems(self, task: AnnotatedTask, episode: Episode, screens: ScreenReader) -> list[str]:
        """The problems that the episode's captions show.

        Raises:
            JudgeFailure: a screen is missing.
        """
        return problems_in_report(task, report_of(episode, screens))


def report_of(episode: Episode, screens: ScreenReader) -> list[str]:
    """The episode in words: a caption of the first screen, a line for each step and for each page that it opened."""
    reader = seen(screens)
    lines: list[str] = []
    for step in replay(episode, reader):
        if not lines:
            lines.append(reader.caption(step.outcome.before.screen_id))
        lines.append(step.caption)
        if step.outcome.opened:
            lines.append(reader.caption(step.outcome.after.screen_id))
    return lines


def problems_in_report(task: AnnotatedTask, report: Sequence[str]) -> list[str]:
    """The reasons why a report does not show that the task was done; empty if it does."""
    if not report or not _ENDED.match(report[-1]):
        return ["the agent did not say that it was done"]
    finder = _ReportProblems(task)
    for line in report:
        finder.read(line)
    return finder.problems + finder.problems_at_end()


class _ReportProblems(ProblemFinder):
    """Finds problems in the lines of one report."""

    def __init__(self, task: AnnotatedTask) -> None:
        super().__init__(task)
        self._part_of_page = {page: part for part in self._parts for page in part.pages}
        self._reader = CaptionReader()

    def read(self, line: str) -> None:
        """Read one line."""
        event = self._reader.read(line)
        if event.presses_forward and event.opened and event.opened != event.page:
            self._arrive(event)
        elif event.changes_page_in_place:
            swaps_item = event.replaces_value and event.role == "list item"
            self._press(event.page, event.label, self._part_of_page.get(event.page), swaps_item)

    def _arrive(self, event: CaptionEvent) -> None:
        part = self._part_of_page.get(event.opened)
        if part is None and title_says_done(event.title):
            self.problems.append(f'something else was done: "{event.title}"')
        elif part is not None and event.opened == part.receipt:
            self._submit(part, event.title)

    def _was_reached(self, receipt: str) -> bool:
        """Always False: in a report, only a submission leads to a receipt."""
        return False

    def _is_changed(self, page: str) -> bool:
        return any(place == page and change.old != change.new for (place, _), change in self._reader.changed.items())

    def _is_typed_on(self, page: str) -> bool:
        return any(place == page and change.kind == "field" for (place, _), change in self._reader.changed.items())

    def _changed_elsewhere(self) -> list[str]:
        return [
            f'"{name}" was changed to "{change.new}" on {page}'
            for (page, name), change in self._reader.changed.items()
            if page not in self._part_of_page and page not in self._reader.forms and change.old != change.new
        ]

    def _problems_of(self, part: TaskPart) -> list[str]:
        found = [
            f'nothing tells of "{slot.value}" for {slot.name}' for slot in part.slots if not self._is_reported(slot)
        ]
        return found + [
            f'"{name}" was changed to "{change.new}"'
            for (page, name), change in self._reader.changed.items()
            if page in part.pages and change.old != change.new and not self._asked(page, name, change, part)
        ]

    def _is_reported(self, slot: Slot) -> bool:
        """Whether the report shows that a constraint is met."""
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

    def _asked(self, page: str, name: str, change: CaptionChange, part: TaskPart) -> bool:
        if any(page == slot.page and change.answers(name, slot) for slot in self._task.slots):
            return True
        return asked_in_words(Control("", change.kind, name, change.new), page, self._task, part)
