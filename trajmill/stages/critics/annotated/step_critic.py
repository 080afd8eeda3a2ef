"""The step critic without a model: did an action help to do what the user asked (paper 6.3)?

GOOD helped, NEUTRAL did nothing or only looked. HARMFUL did damage: it set what nobody asked for, undid what was asked,
submitted too early, left the path, or was no action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.annotated.episode_state import EpisodeState
from trajmill.stages.critics.annotated.slots import holds, same_value, slots_on, wanted
from trajmill.stages.critics.annotated.task import (
    AnnotatedTask,
    TaskPart,
    annotated_task,
    app_of,
    asked_in_words,
    changes_page_in_place,
    does_something_else,
    is_annotated,
    parts_of,
    submits,
)
from trajmill.stages.critics.annotated.tree_channel import find_problems
from trajmill.stages.critics.annotated.wording import shared_stems
from trajmill.stages.critics.base import StepResult, at_most_words
from trajmill.stages.critics.trees.replay import SeenStep, replay
from trajmill.stages.critics.trees.screen_state import Control, ControlChange

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL


class AnnotatedStepCritic:
    """Judges a step by the trees before and after it; asks no model."""

    version = "state-step-critic-1"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode.

        Raises:
            JudgeFailure: a screen is missing.
        """
        steps = replay(episode, screens)
        if not steps:
            return []
        if not is_annotated(episode.query):
            return _without_annotations(steps)
        judge = _StepJudge(annotated_task(episode.query), steps[0])
        return [judge.judge(step) for step in steps]


class _Opinion(NamedTuple):
    label: StepLabel
    why: str


class _StepJudge:
    """Follows one episode and judges each step by what came before it."""

    def __init__(self, task: AnnotatedTask, first: SeenStep) -> None:
        self._task = task
        self._parts = parts_of(task)
        self._state = EpisodeState()
        self._state.enter(first.outcome.before)
        self._past: list[SeenStep] = []
        self._submitted: set[str] = set()

    def judge(self, step: SeenStep) -> StepResult:
        opinion = self._opinion(step)
        self._state.observe(step)
        self._past.append(step)
        return _result(step, opinion)

    def _opinion(self, step: SeenStep) -> _Opinion:
        if step.action.parsed is None:
            return _Opinion(HARMFUL, "The reply was no action.")
        if step.action.kind in ("terminate", "answer"):
            return self._ending(step)
        if step.outcome.same:
            if self._picks_blindly(step):
                return _Opinion(GOOD, "It picked what was asked for, though the screen does not show it.")
            return _Opinion(NEUTRAL, "Nothing visible came of it.")
        if does_something_else(step, self._task):
            return _Opinion(HARMFUL, "It did something that nobody asked for.")
        if changes_page_in_place(step):
            return self._changing_page(step)
        if step.outcome.changes:
            return self._setting(step)
        if step.outcome.opened:
            return self._move(step)
        return self._looking(step)

    def _ending(self, step: SeenStep) -> _Opinion:
        if not step.action.ends:
            return _Opinion(HARMFUL, "It gave up.")
        problems = find_problems(self._task, [*self._past, step])
        if problems:
            return _Opinion(HARMFUL, f"It ended though {problems[0]}.")
        return _Opinion(GOOD, "Everything had been done.")

    def _picks_blindly(self, step: SeenStep) -> bool:
        """Whether it presses the wanted item of a list on the last page of the task."""
        element, page = step.action.element, step.outcome.before.page
        return (
            step.action.presses
            and element is not None
            and element.role == "list_item"
            and page == self._task.pages[-1]
            and any(same_value(element.text, slot.value) for slot in slots_on(page, self._task.slots))
        )

    def _changing_page(self, step: SeenStep) -> _Opinion:
        label = step.action.element.text if step.action.element is not None else ""
        page = step.outcome.before.page
        if any(same_value(label, slot.value) for slot in slots_on(page, self._task.slots)):
            return _Opinion(GOOD, "It picked what was asked for.")
        typed = self._state.typed.get(page, ())
        if any(slot.page == page and slot.value in typed for slot in self._task.slots):
            return _Opinion(GOOD, "It sent off what was typed as asked.")
        if shared_stems(label, self._task.instruction):
            return _Opinion(GOOD, f'The user speaks of "{label}".')
        return _Opinion(HARMFUL, f'Nobody asked for "{label}".')

    def _setting(self, step: SeenStep) -> _Opinion:
        opinions = [self._change(change, step.outcome.after.page) for change in step.outcome.changes]
        return max(opinions, key=lambda opinion: (GOOD, NEUTRAL, HARMFUL).index(opinion.label))

    def _change(self, change: ControlChange, page: str) -> _Opinion:
        control = change.control
        if control.kind == "search":
            wants = any(same_value(control.value, slot.value) for slot in self._task.slots)
            return _Opinion(GOOD, "It searched for what was asked.") if wants else _Opinion(NEUTRAL, "It searched.")
        slot = wanted(control, slots_on(page, self._task.slots))
        if slot is not None:
            if holds(control, slot):
                return _Opinion(GOOD, f"It set {slot.name} as asked.")
            if same_value(change.old, slot.value):
                return _Opinion(HARMFUL, f"It undid {slot.name}, which stood as asked.")
            if control.kind == "stepper":
                return _stepper_opinion(change, slot.value)
        elif any(page in part.pages and asked_in_words(control, page, self._task, part) for part in self._parts):
            return _Opinion(GOOD, f'The user speaks of "{control.label}".')
        seen = self._state.controls.get((page, control.key))
        if seen is not None and control.value == seen.first:
            return _Opinion(GOOD, f'It put "{control.label}" back to how it was.')
        return _Opinion(HARMFUL, f'Nobody asked for "{control.value}" in "{control.label}".')

    def _move(self, step: SeenStep) -> _Opinion:
        before, after = step.outcome.before.page, step.outcome.after.page
        for part in self._parts:
            if submits(step, part.receipt):
                return self._submitting(part)
        if after not in self._task.pages:
            return self._off_path(step)
        if before not in self._task.pages:
            return _Opinion(GOOD, "It came back to the path of the task.")
        order = self._task.pages.index
        if order(after) < order(before):
            return self._going_back(after, before)
        return self._picking(step)

    def _submitting(self, part: TaskPart) -> _Opinion:
        assert part.receipt is not None
        if part.receipt in self._submitted:
            return _Opinion(HARMFUL, "It did the same thing a second time.")
        self._submitted.add(part.receipt)
        missing = self._open(part)
        if missing:
            return _Opinion(HARMFUL, f"It went ahead though {missing[0]} was not as asked.")
        for page, control in self._state.changed_controls():
            if page in part.pages and not self._asked(page, control, part):
                return _Opinion(HARMFUL, f'It went ahead while "{control.label}" stood at "{control.value}".')
        return _Opinion(GOOD, "Everything stood as asked when it went ahead.")

    def _picking(self, step: SeenStep) -> _Opinion:
        element = step.action.element
        asked = slots_on(step.outcome.before.page, self._task.slots)
        if element is not None and element.role == "list_item" and asked:
            if any(same_value(element.text, slot.value) for slot in asked):
                return _Opinion(GOOD, "It picked what was asked for.")
            return _Opinion(HARMFUL, f'Nobody asked for "{element.text}".')
        return _Opinion(GOOD, "It went on along the path of the task.")

    def _off_path(self, step: SeenStep) -> _Opinion:
        app = app_of(step.outcome.after.page)
        if app in {part.app for part in self._parts} and app != app_of(step.outcome.before.page):
            return _Opinion(GOOD, "It came to an app of the task.")
        if step.outcome.before.page not in self._task.pages:
            return _Opinion(NEUTRAL, "It went from one page off the path to another.")
        if self._between_parts(step):
            return _Opinion(GOOD, "It left an app in which everything was done.")
        return _Opinion(HARMFUL, "It left the path of the task.")

    def _between_parts(self, step: SeenStep) -> bool:
        """Whether the step leaves the last page of an app's part, while another app is still to come."""
        if app_of(step.outcome.after.page) == app_of(step.outcome.before.page):
            return False
        return any(step.outcome.before.page == part.pages[-1] for part in self._parts[:-1])

    def _going_back(self, page: str, left: str) -> _Opinion:
        for slot in self._task.slots:
            if slot.page == page and self._state.evidence(slot, self._task.slots) is not True:
                return _Opinion(GOOD, f"It went back to set {slot.name}.")
        if app_of(page) != app_of(left):
            return _Opinion(NEUTRAL, "It went back to an earlier app.")
        return _Opinion(HARMFUL, "It went back though nothing was left to do there.")

    def _looking(self, step: SeenStep) -> _Opinion:
        asked = slots_on(step.outcome.after.page, self._task.slots)
        came_up = step.outcome.after.texts - step.outcome.before.texts
        if any(slot.value.casefold() in came_up for slot in asked):
            return _Opinion(GOOD, "It brought what was asked for into view.")
        element = step.action.element
        page = step.outcome.after.page
        if element is not None and element.role == "menu" and page in self._task.pages:
            return self._opening_a_menu(step)
        if element is not None and "editable" in element.states and (asked or page in self._task.pages):
            return _Opinion(GOOD, "It made ready to type.")
        return _Opinion(NEUTRAL, "It only looked.")

    def _asked(self, page: str, control: Control, part: TaskPart) -> bool:
        slot = wanted(control, slots_on(page, self._task.slots))
        return holds(control, slot) if slot is not None else asked_in_words(control, page, self._task, part)

    def _opening_a_menu(self, step: SeenStep) -> _Opinion:
        asked = " ".join((self._task.instruction, *self._task.page_descriptions))
        items = [element.text for element in step.outcome.after.elements if element.role == "menu_item"]
        if any(shared_stems(item, asked) for item in items):
            return _Opinion(GOOD, "It opened a menu with what was asked for.")
        return _Opinion(NEUTRAL, "It opened a menu.")

    def _open(self, part: TaskPart) -> list[str]:
        """Names of the constraints of a part that are known to be unmet."""
        return [slot.name for slot in part.slots if self._state.evidence(slot, self._task.slots) is False]


def _result(step: SeenStep, opinion: _Opinion) -> StepResult:
    return StepResult(step.index, f"{step.caption} {opinion.why}", at_most_words(step.caption), opinion.label)


def _without_annotations(steps: Sequence[SeenStep]) -> list[StepResult]:
    """Judge steps without annotations: only those that surely do not help are not GOOD."""
    return [_result(step, _opinion_without_task(step, steps[:at])) for at, step in enumerate(steps)]


def _opinion_without_task(step: SeenStep, past: Sequence[SeenStep]) -> _Opinion:
    if step.action.parsed is None:
        return _Opinion(HARMFUL, "The reply was no action.")
    if step.action.kind == "terminate" and not step.action.ends:
        return _Opinion(HARMFUL, "It gave up.")
    screen = step.outcome.before.screen_id
    if step.outcome.same and any(p.action == step.action and p.outcome.before.screen_id == screen for p in past):
        return _Opinion(NEUTRAL, "It did the same thing again, without effect.")
    return _Opinion(GOOD, "Nothing speaks against it.")


def _stepper_opinion(change: ControlChange, asked: str) -> _Opinion:
    if abs(int(asked) - int(change.control.value)) < abs(int(asked) - int(change.old)):
        return _Opinion(GOOD, f"It came nearer to {asked}.")
    return _Opinion(HARMFUL, f"It went away from {asked}.")
