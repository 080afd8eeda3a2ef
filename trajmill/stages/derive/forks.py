"""Derives fork points: what a success did on the screen where a failed attempt of its group left it.

The matching is that of UI-Voyager's group relative self-distillation (2603.24533, `shortest_base`), with equal trees
instead of similar pixels. Let s_i be the screen before step i of the failed attempt, t_j that of the success, and m = 0
at the start. For i = 0, 1, ...:

    passed   if s_i = t_j and s_(i+1) = t_(j+1), which differs from s_i, for a j >= m: the first such j sets m = j + 1
    fork     else if s_i = t_j for a j >= m, and the actions differ: the first such j teaches, and sets m = j
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Final, NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import ScreenReader, UIElement, look_of
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.replay import element_at, read_element_action, seen, stored_evidence
from trajmill.stages.derive.collected import Collected, KindDeriver, Lesson, unfit
from trajmill.stages.derive.conversation import holds_placeholder, step_messages
from trajmill.stages.derive.spec import ForksSpec
from trajmill.stages.derive.step_data import unlearned_step
from trajmill.stages.guidance.strip import quotes_guidance

FIRST: Final = "first"
"""Variant of a fork before which the failed attempt did all that the success did."""
LATER: Final = "later"
"""Variant of a fork on a shared screen that the failed attempt reached in another way."""


_QUOTED = re.compile(r'"([^"]+)"')
_TOLD = re.compile(
    r"(?:^|(?<=[.!?] ))(?:I (?:have|just|begin|came|went|left|\w+ed)|This is the first|Nothing is done)\b"
    r'(?:"[^"]*"|[^".!?])*[.!?] ?'
)
"""What a thought tells of the way so far, which is another one in the failed attempt."""


class Transition(NamedTuple):
    """A step as the matching compares it: equal keys are equal screens or equal actions."""

    before: Hashable
    action: Hashable
    after: Hashable


class Fork(NamedTuple):
    at: int
    """Position of the failed step."""
    teacher: int
    """Position of the step of the success that is taught."""
    first: bool
    """Whether the failed attempt passed a step of the success with each step before."""


def fork_points(failed: Sequence[Transition], success: Sequence[Transition]) -> list[Fork]:
    """Match a failed attempt with a success; at most one fork for each failed step."""
    forks: list[Fork] = []
    start, together = 0, True
    for at, step in enumerate(failed):
        shared = [each for each in range(start, len(success)) if success[each].before == step.before]
        passed = next((each for each in shared if success[each].after == step.after != step.before), None)
        if passed is not None:
            start, together = passed + 1, together and passed == at
            continue
        teacher = next((each for each in shared if success[each].action != step.action), None)
        if teacher is not None:
            forks.append(Fork(at, teacher, together and teacher == at))
            start = teacher
        together = False
    return forks


class Forks(KindDeriver[ForksSpec]):
    """Derives the forks of a failed attempt; no model is needed."""

    def unusable(self, episode: Episode) -> str | None:
        if episode.judged_reward:
            return "judged_correct"
        return unfit(episode) or (None if self._success(episode) else "no_success_in_group")

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        success = self._success(episode)
        assert success is not None
        with stored_evidence(episode):
            forks = fork_points(*(transitions(each, self.tools.screens) for each in (episode, success)))
        if not forks:
            collected.refuse("no_shared_screen")
        for fork in forks:
            made = self._lesson(episode, success, fork)
            collected.add_or_refuse(made, episode.steps[fork.at], FIRST if fork.first else LATER)

    def _success(self, episode: Episode) -> Episode | None:
        sources, name = self.tools.of_tasks, episode.trajectory.trajectory_id
        return next(iter(sources.others.get(name, ())), None) if sources is not None else None

    def _lesson(self, episode: Episode, success: Episode, fork: Fork) -> Lesson | str:
        """Return the lesson of a fork, in the prompt of the failed attempt, or the reason for having none."""
        step, teacher = episode.steps[fork.at], success.steps[fork.teacher]
        if episode.labels.get(step.index) is StepLabel.GOOD:
            return "failed_step_is_good"
        unlearned = unlearned_step(teacher, success.labels.get(teacher.index))
        if unlearned is not None:
            return unlearned
        moved = moved_action(teacher, step, self.tools.screens)
        if isinstance(moved, str):
            return moved
        if not fork.first and actions.ends_episode(moved.action):
            # The screens are equal, but what was done before them is not.
            return "end_after_another_way"
        if not fork.first and not self._may_know(step, teacher, moved.action):
            return "says_what_it_has_not_seen"
        if any(quotes_guidance(text, success.guidance) for text in (teacher.thought, teacher.conclusion)):
            return "quotes_guidance"
        said = {
            "thought": teacher.thought if fork.first else _TOLD.sub("", teacher.thought).strip(),
            "conclusion": teacher.conclusion,
            "action": actions.action_to_json(moved.action),
        }
        size = self.tools.screens.size(step.screen_before)
        messages = step_messages(episode, step.model_copy(update=said), size)
        if isinstance(messages, str):
            return messages
        rejected = step.raw_response if step.action is None else step_messages(episode, step, size)[-1]
        rejected = rejected if isinstance(rejected, str) else rejected.content
        if not rejected or holds_placeholder([rejected]):
            return "no_rejected_reply"
        return Lesson(
            messages,
            (step.screen_before,),
            FIRST if fork.first else LATER,
            success.trajectory.model_version,
            moved.action,
            moved.box,
            trajectories=(episode.trajectory.trajectory_id, success.trajectory.trajectory_id),
            rejected=rejected,
        )

    def _may_know(self, step: Step, teacher: Step, action: actions.Action) -> bool:
        """Whether what the teacher types or quotes is in the failed step's prompt or on its screen."""
        elements = self.tools.screens.elements(step.screen_before) or ()
        shown = " ".join([step.prompt, *(f"{each.text} {each.value or ''}" for each in elements)]).casefold()
        said = [*_QUOTED.findall(teacher.thought), *([action.text] if isinstance(action, actions.TypeText) else [])]
        return all(text.casefold() in shown for text in said)


class MovedAction(NamedTuple):
    action: actions.Action
    """In pixels of the screen that it was moved to."""
    box: Box | None
    """The element that it presses."""


def moved_action(teacher: Step, step: Step, screens: ScreenReader) -> MovedAction | str:
    """Return the action of `teacher` on the screen before `step`, whose elements may lie elsewhere; or why it has none.

    A press goes to the middle of the equal element, a scroll to the same part of the screen.
    """
    action, (there, here) = actions.action_from_json(teacher.action or ""), (teacher.screen_before, step.screen_before)
    point = actions.pressed_point(action)
    if point is None:
        return MovedAction(action, None)
    element = element_at(screens.elements(there), *point)
    if there == here:
        return MovedAction(action, element.bounds if element is not None else None)
    if isinstance(action, actions.Swipe | actions.Scroll | actions.HorizontalScroll):
        (wide, high), (width, height) = screens.size(there), screens.size(here)
        scaled = {name: value * width // wide for name, value in _positions(action, "x").items()}
        scaled |= {name: value * height // high for name, value in _positions(action, "y").items()}
        return MovedAction(action.model_copy(update=scaled), None)
    if element is None or not isinstance(action, actions.Click | actions.LongPress | actions.MoveMouse):
        return "position_without_element"
    equal = [each for each in screens.elements(here) if _identity(each) == _identity(element)]
    if len(equal) != 1:
        return "element_is_not_unique"
    x, y = equal[0].bounds.center
    return MovedAction(action.model_copy(update={"x": x, "y": y}), equal[0].bounds)


def _positions(action: actions.Action, axis: str) -> dict[str, int]:
    return {name: value for name, value in action.model_dump().items() if name in (axis, f"{axis}2") and value}


def _identity(element: UIElement) -> Hashable:
    return element.role, element.text, element.value, element.element_id


def transitions(episode: Episode, screens: ScreenReader) -> list[Transition]:
    """Return the steps as they are compared; presses of equal elements are equal, wherever they lie."""
    reader, is_phone = seen(screens), episode.query.platform is Platform.PHONE

    @cache
    def screen(screen_id: str) -> str:
        return look_of(screen_id, reader.elements(screen_id), reader.size(screen_id), is_phone)

    def action(step: Step) -> Hashable:
        read = read_element_action(step.action, reader.elements(step.screen_before))
        if read.parsed is None:
            return step.raw_response
        where = {"x", "y"} if read.element is not None else set[str]()
        return read.parsed.model_dump_json(exclude=where), read.element and _identity(read.element)

    return [Transition(screen(each.screen_before), action(each), screen(each.screen_after)) for each in episode.steps]
