"""The multimodal channel without a model: reads the accessibility trees of all screens, but no pixels (paper 6.3).

It checks whether each constraint was met when something was submitted, whether anything else was changed, and whether
the receipt of each part of the task was shown once.
"""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.query import Slot
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.annotated.channel import AnnotatedChannel
from trajmill.stages.critics.annotated.episode_state import EpisodeState
from trajmill.stages.critics.annotated.problem_finder import ProblemFinder
from trajmill.stages.critics.annotated.slots import holds, slots_on, wanted
from trajmill.stages.critics.annotated.task import (
    AnnotatedTask,
    TaskPart,
    asked_in_words,
    changes_page_in_place,
    does_something_else,
    pages_from,
    replaces_value,
    submits,
)
from trajmill.stages.critics.annotated.wording import is_said, mentions, says_no
from trajmill.stages.critics.trees.replay import SeenStep, replay
from trajmill.stages.critics.trees.screen_state import OFF, ON, Control


class AnnotatedTreeChannel(AnnotatedChannel):
    """Votes by accessibility trees."""

    channel = Channel.MULTIMODAL
    version = "state-channel-1"
    reason_if_correct = "every constraint stood as asked when it counted, and nothing else was changed"

    def problems(self, task: AnnotatedTask, episode: Episode, screens: ScreenReader) -> list[str]:
        """The problems that the trees of the episode's screens show.

        Raises:
            JudgeFailure: a screen is missing.
        """
        return find_problems(task, replay(episode, screens))


def find_problems(task: AnnotatedTask, steps: Sequence[SeenStep]) -> list[str]:
    """The reasons why steps do not do what the task asks; empty if they do."""
    if not steps or not steps[-1].action.ends:
        return ["the agent did not say that it was done"]
    finder = _TreeProblems(task, steps[0])
    for step in steps:
        finder.observe(step)
    return finder.problems + finder.problems_at_end()


class _TreeProblems(ProblemFinder):
    """Finds problems in the screens of one episode."""

    def __init__(self, task: AnnotatedTask, first: SeenStep) -> None:
        super().__init__(task)
        self._state = EpisodeState()
        self._state.enter(first.outcome.before)

    def observe(self, step: SeenStep) -> None:
        """Read one step."""
        self._state.observe(step)
        if does_something_else(step, self._task):
            self.problems.append(f'something else was done: "{step.outcome.after.title}"')
        page, element = step.outcome.before.page, step.action.element
        for part in self._parts:
            if submits(step, part.receipt):
                self._submit(part, step.outcome.after.title)
            elif changes_page_in_place(step) and page in part.pages and element is not None:
                self._press(page, element.text, part, replaces_value(step) and element.role == "list_item")

    def _problems_of(self, part: TaskPart) -> list[str]:
        unmet = [f'no "{slot.value}" for {slot.name}' for slot in part.slots if not self._is_met(slot, part)]
        changed = [place for place in self._state.changed_controls() if place[0] in part.pages]
        unasked = [control for page, control in changed if not self._asked(page, control, part)]
        for (page, _), seen in self._state.controls.items():
            if page in part.pages and not seen.changed and self._contradicts_instruction(page, seen.control):
                unasked.append(seen.control)
        return unmet + [f'"{control.label}" stands at "{control.value}"' for control in unasked]

    def _contradicts_instruction(self, page: str, control: Control) -> bool:
        """Whether the instruction names a switch without a constraint and wants its other position."""
        if control.kind != "toggle" or wanted(control, slots_on(page, self._task.slots)) is not None:
            return False
        off = says_no(control.label, self._task.instruction)
        return is_said(control.label, self._task.instruction) and control.value == (ON if off else OFF)

    def _is_met(self, slot: Slot, part: TaskPart) -> bool:
        if self._submits_typed_text(slot.page, part) and slot.value in self._state.typed.get(slot.page, ()):
            return self._is_shown(slot)
        found = self._state.evidence(slot, self._task.slots)
        if found is not None:
            return found
        if not slot.said and slot.page not in self._state.pages:
            return True
        return self._is_shown(slot)

    def _is_shown(self, slot: Slot) -> bool:
        pages = pages_from(slot, self._task)
        return any(mentions(text, slot.value) for page in pages for text in self._state.shown.get(page, ()))

    def _asked(self, page: str, control: Control, part: TaskPart) -> bool:
        slot = wanted(control, slots_on(page, self._task.slots))
        return holds(control, slot) if slot is not None else asked_in_words(control, page, self._task, part)

    def _was_reached(self, receipt: str) -> bool:
        return receipt in self._state.pages

    def _is_changed(self, page: str) -> bool:
        return any(place == page for place, _ in self._state.changed_controls())

    def _is_typed_on(self, page: str) -> bool:
        return page in self._state.typed

    def _changed_elsewhere(self) -> list[str]:
        known = {page for part in self._parts for page in part.pages}
        return [
            f'"{control.label}" stands at "{control.value}" on {page}'
            for page, control in self._state.changed_controls()
            if page not in known and page not in self._state.forms
        ]
