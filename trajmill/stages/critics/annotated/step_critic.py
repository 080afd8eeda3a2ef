"""The step critic without a model: did an action help to do what the user asked (paper 6.3)?

GOOD helped, NEUTRAL did nothing or only looked. HARMFUL did damage: it set what nobody asked for, undid what was asked,
submitted too early, left the path, or was no action. `find_problems` decides on the whole episode: at each submission
and at the end, each constraint must be met and nothing else may be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.annotated.episode import EpisodeState, Place, Problem, places_of
from trajmill.stages.critics.annotated.task import (
    AnnotatedTask,
    TaskPart,
    annotated_task,
    app_of,
    holds,
    is_annotated,
    same_value,
    wanted,
)
from trajmill.stages.critics.trees.replay import ControlChange, SeenStep, replay
from trajmill.stages.critics.voting import StepResult, at_most_words

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL


class Opinion(NamedTuple):
    label: StepLabel
    why: str

    def on(self, step: SeenStep) -> StepResult:
        return StepResult(step.index, f"{step.caption} {self.why}", at_most_words(step.caption), self.label)


def plain_opinion(step: SeenStep, problems: Callable[[], Sequence[Problem]]) -> Opinion | None:
    """Return the opinion on a reply without an action, an end, or a step without effect; None for any other.

    `problems` returns what is wrong with the episode if it ends with the step.
    """
    if step.action.parsed is None:
        return Opinion(HARMFUL, "The reply was no action.")
    if step.action.kind in ("terminate", "answer"):
        found = problems()
        if step.action.gives_up:
            return Opinion(HARMFUL, "It gave up.") if found else Opinion(GOOD, "What was asked for is not there.")
        if found:
            return Opinion(HARMFUL, f"It ended though {found[0].text}.")
        return Opinion(GOOD, "Everything had been done.")
    return Opinion(NEUTRAL, "Nothing visible came of it.") if step.outcome.same else None


class AnnotatedStepCritic:
    """Judges a step by the trees before and after it; asks no model."""

    version = "state-step-critic-2"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode. Raises JudgeFailure if a screen is missing."""
        steps = replay(episode, screens)
        if not steps or not is_annotated(episode.query):
            return [_opinion_without_task(step, steps[:at]).on(step) for at, step in enumerate(steps)]
        judge = _StepJudge(annotated_task(episode.query), steps)
        opinions = [judge.judge(step) for step in steps]
        for at, (step, following) in enumerate(pairwise(steps)):
            opened, picked = step.action.element, following.action.element
            if opened is None or opened.role != "menu" or picked is None or picked.role != "menu_item":
                continue
            if opinions[at].label is NEUTRAL and opinions[at + 1].label is GOOD:
                opinions[at] = Opinion(GOOD, "It opened a menu with what was asked for.")
        return [opinion.on(step) for step, opinion in zip(steps, opinions, strict=True)]


def _opinion_without_task(step: SeenStep, past: Sequence[SeenStep]) -> Opinion:
    """Call each step GOOD that does not surely fail to help."""
    plain = plain_opinion(step, lambda: [Problem("it gave up")] if step.action.gives_up else [])
    if plain is not None and plain.label is HARMFUL:
        return plain
    screen = step.outcome.before.screen_id
    if step.outcome.same and any(p.action == step.action and p.outcome.before.screen_id == screen for p in past):
        return Opinion(NEUTRAL, "It did the same thing again, without effect.")
    return Opinion(GOOD, "Nothing speaks against it.")


class _StepJudge(EpisodeState):
    def __init__(self, task: AnnotatedTask, steps: Sequence[SeenStep]) -> None:
        super().__init__(task)
        self.enter(steps[0].outcome.before)
        gave_up = _state_after(task, steps) if steps[-1].action.gives_up else None
        self._absent = None if gave_up is None or gave_up.problems_at(steps[-1].action) else gave_up.absent()
        self._places, self._at = places_of(steps, task, self._absent), 0
        self._receipts: set[str] = set()
        self._done: set[TaskPart] = set()

    def judge(self, step: SeenStep) -> Opinion:
        ends = step.action.kind in ("terminate", "answer")  # judged with the whole episode
        if ends:
            self.observe(step)
        opinion = self._opinion(step)
        if not ends:
            self.observe(step)
        self._at += 1
        self._done |= {part for part in self.parts if self._is_done(part, step, opinion)}
        return opinion

    @property
    def _here(self) -> Place:
        return self._places[self._at]

    def _is_done(self, part: TaskPart, step: SeenStep, opinion: Opinion) -> bool:
        if part.receipt is not None:
            return part.receipt in self._receipts
        if part.open_page is not None:
            acts = bool(step.outcome.changes) or step.changes_page_in_place
            return opinion.label is GOOD and acts and step.outcome.before.page == part.open_page
        if any(self.evidence(slot) is not True for slot in part.slots):
            return False
        return self._here.app == part.app and not self._here.is_wrong and step.outcome.after.page == part.pages[-1]

    def _opinion(self, step: SeenStep) -> Opinion:
        plain = plain_opinion(step, partial(self.problems_at, step.action))
        if plain is not None:
            blindly = Opinion(GOOD, "It picked what was asked for, though the screen does not show it.")
            return blindly if self._picks_blindly(step) else plain
        if self.task.is_left_by(step):
            return Opinion(HARMFUL, "It did something that nobody asked for.")
        if step.changes_page_in_place:
            return self._changing_page(step)
        if step.outcome.changes:
            opinions = [self._change(change, step.outcome.after.page) for change in step.outcome.changes]
            return max(opinions, key=lambda opinion: (GOOD, NEUTRAL, HARMFUL).index(opinion.label))
        return self._move(step) if step.outcome.opened else self._looking(step)

    def _picks_blindly(self, step: SeenStep) -> bool:
        """Whether it presses the wanted item of a list on the last page of the task, and has not done so before."""
        element, page = step.action.element, step.outcome.before.page
        if not step.action.presses or element is None or element.role != "list_item" or page != self.task.pages[-1]:
            return False
        wanted_here = (slot for slot in self.task.slots_on(page) if same_value(element.text, slot.value))
        return any(self.evidence(slot) is not True for slot in wanted_here)

    def _changing_page(self, step: SeenStep) -> Opinion:
        label = step.action.element.text if step.action.element is not None else ""
        page = step.outcome.before.page
        asked, typed = self.task.slots_on(page), self.typed[page]
        if any(same_value(label, slot.value) for slot in asked):
            return Opinion(GOOD, "It picked what was asked for.")
        if any(slot.value in typed for slot in asked):
            return Opinion(GOOD, "It sent off what was typed as asked.")
        on_open_page = any(page == part.open_page for part in self.parts)
        if on_open_page and not self._here.is_wrong and self.task.is_about(label):
            return Opinion(GOOD, f'The user speaks of "{label}".')
        return Opinion(HARMFUL, f'Nobody asked for "{label}".')

    def _change(self, change: ControlChange, page: str) -> Opinion:
        control = change.control
        if control.kind == "search":
            wants = any(same_value(control.value, slot.value) for slot in self.task.slots)
            return Opinion(GOOD, "It searched for what was asked.") if wants else Opinion(NEUTRAL, "It searched.")
        slot = wanted(control, self.task.slots_on(page))
        if slot is not None:
            if holds(control, slot):
                return Opinion(GOOD, f"It set {slot.name} as asked.")
            if same_value(change.old, slot.value):
                return Opinion(HARMFUL, f"It undid {slot.name}, which stood as asked.")
            if control.kind == "stepper":
                asked = int(slot.value)
                if abs(asked - int(control.value)) < abs(asked - int(change.old)):
                    return Opinion(GOOD, f"It came nearer to {slot.value}.")
                return Opinion(HARMFUL, f"It went away from {slot.value}.")
        elif any(page in part.pages and self.task.asks_in_words(control, page, part) for part in self.parts):
            return Opinion(GOOD, f'The user speaks of "{control.label}".')
        if control.value == self.first.get((page, control.key)):
            return Opinion(GOOD, f'It put "{control.label}" back to how it was.')
        return Opinion(HARMFUL, f'Nobody asked for "{control.value}" in "{control.label}".')

    def _move(self, step: SeenStep) -> Opinion:
        page_before, page = step.outcome.before.page, step.outcome.after.page
        for part in self.parts:
            if part.is_submitted_by(step):
                return self._submitting(part)
        if page_before == page:
            element, asked = step.action.element, self.task.slots_on(page)
            if element is None or element.role != "list_item" or not asked:
                return Opinion(GOOD, "It went on along the path of the task.")
            if any(same_value(element.text, slot.value) for slot in asked):
                return Opinion(GOOD, "It picked what was asked for.")
            return Opinion(HARMFUL, f'Nobody asked for "{element.text}".')
        here, there = self._here, self._places[self._at + 1]
        before, after = self._actions_left(here), self._actions_left(there)
        if after == before:
            return Opinion(NEUTRAL, "It came no nearer to what is left of the task.")
        if after > before:
            if here.is_wrong and there.is_wrong:
                return Opinion(HARMFUL, "It went on from a wrong place.")
            if page not in self.task.pages:
                return Opinion(HARMFUL, "It left the path of the task.")
            if there.is_wrong:
                return Opinion(HARMFUL, "What was asked for is not there.")
            return Opinion(HARMFUL, "It left a place in which something is still to be done.")
        if here.is_wrong and here.app == there.app:
            return Opinion(GOOD, "It came back from a wrong place.")
        if app_of(page) != app_of(page_before):
            return Opinion(GOOD, "It is on the way to what is left of the task.")
        for slot in self.task.slots_on(page) if page in self.pages else ():
            if self.evidence(slot) is not True:
                return Opinion(GOOD, f"It went back to set {slot.name}.")
        return Opinion(GOOD, "It went on along the path of the task.")

    def _actions_left(self, place: Place) -> int:
        """Estimate the actions left, as `GoalDistance` measures it: within the apps of the open parts, and to them."""
        parts = [part for part in self.parts if part not in self._done]
        away = sum(part.app != place.app for part in parts)
        on_launcher = bool(away) and not place.pages_of(place.app)
        unmet = [slot.page for slot in self.task.slots if self.evidence(slot) is False]
        return sum(place.actions_left(part, unmet) for part in parts) + 2 * away - on_launcher

    def _submitting(self, part: TaskPart) -> Opinion:
        assert part.receipt is not None
        if part.receipt in self._receipts:
            return Opinion(HARMFUL, "It did the same thing a second time.")
        if self._here.is_wrong:
            return Opinion(HARMFUL, "It went ahead in a wrong place.")
        self._receipts.add(part.receipt)
        missing = [slot.name for slot in part.slots if self.evidence(slot) is False]
        if missing:
            return Opinion(HARMFUL, f"It went ahead though {missing[0]} was not as asked.")
        for page, control in self.changed_controls():
            if page in part.pages and not self.task.is_asked(page, control, part):
                return Opinion(HARMFUL, f'It went ahead while "{control.label}" stood at "{control.value}".')
        return Opinion(GOOD, "Everything stood as asked when it went ahead.")

    def _looking(self, step: SeenStep) -> Opinion:
        after, element = step.outcome.after, step.action.element
        asked, came_up = self.task.slots_on(after.page), after.texts - step.outcome.before.texts
        if self._absent in asked and step.action.kind in ("swipe", "scroll"):
            return Opinion(GOOD, "It looked for what is not there.")
        if any(slot.value.casefold() in came_up for slot in asked):
            return Opinion(GOOD, "It brought what was asked for into view.")
        if element is not None and "editable" in element.states and (asked or after.page in self.task.pages):
            return Opinion(GOOD, "It made ready to type.")
        return Opinion(NEUTRAL, "It only looked.")


def find_problems(task: AnnotatedTask, steps: Sequence[SeenStep]) -> list[Problem]:
    """Return why steps do not do what the task asks; empty if they do."""
    if not steps or not (steps[-1].action.ends or steps[-1].action.gives_up):
        return [Problem("the agent did not say that it was done")]
    return _state_after(task, steps).problems_at(steps[-1].action)


def _state_after(task: AnnotatedTask, steps: Sequence[SeenStep]) -> EpisodeState:
    state = EpisodeState(task)
    state.enter(steps[0].outcome.before)
    for step in steps:
        state.observe(step)
    return state
