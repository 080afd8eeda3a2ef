"""Makes step data as CODA labels it: redundant steps and all steps after the first error are cut (CODA 3.4).

CODA's judge gives three signals for a whole trajectory: correctness, the redundant steps, and the first error step. Its
positive actions may come from failed trajectories too. A step that undoes the error of the step before it is kept on
purpose, even if the judge calls it redundant: it shows how an agent finds its way back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from trajmill.schemas.actions import action_from_json, ends_episode
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.example import Message
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.trees.replay import SeenStep, replay
from trajmill.stages.derive.base import DerivedRows, Deriver, unfit
from trajmill.stages.derive.collected import Collected, Lesson, Maker
from trajmill.stages.derive.conversation import prompt_messages, rendered, unfit_text
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.kind_spec import KindSpec, Tools

POSITIVE = "positive"
"""A step of a correct trajectory."""
BEFORE_ERROR = "before_error"
"""A step of a failed trajectory, before its first error."""
SELF_CORRECTION = "self_correction"
"""A step that undoes the error of the step before it."""


class StepDataSpec(KindSpec):
    """Step data with the signals of CODA's judge: `trajmill derive step`."""

    name: ClassVar[str] = "step"
    version: ClassVar[str] = "3"

    failed: bool = True
    """Whether steps of failed trajectories before their first error are used."""
    self_corrections: bool = True
    """Whether steps that repair an error are kept, even where they are redundant."""

    def open(self, tools: Tools) -> Deriver:
        """What derives step data."""
        return StepData(self, tools.maker, tools.screens)


class Selected(NamedTuple):
    """What becomes of a step."""

    variant: str | None
    """The sort of example; None if it is cut."""
    reason: str = ""


def select_steps(episode: Episode, spec: StepDataSpec, screens: ScreenReader) -> list[Selected] | str:
    """What becomes of each step of an episode; a reason alone if all of it is refused.

    Raises:
        JudgeFailure: a screen is missing.
    """
    unusable = unfit(episode, LEARNED_FROM)
    judgement = episode.judgement
    if unusable is not None or judgement is None:
        return unusable or "not_judged"
    first_error = judgement.first_error_step
    if not judgement.correct and not spec.failed:
        return "judged_incorrect"
    if not judgement.correct and first_error is None:
        return "no_first_error"
    labels = {verdict.index: verdict.label for verdict in episode.step_verdicts}
    errors = {index for index, label in labels.items() if label is StepLabel.HARMFUL}
    errors |= set() if first_error is None else {first_error}
    usual = POSITIVE if judgement.correct else BEFORE_ERROR
    found = []
    steps = replay(episode, screens) if spec.self_corrections and errors else ()
    for position, step in enumerate(episode.steps):
        repairs = position > 0 and episode.steps[position - 1].index in errors and bool(steps)
        repairs = repairs and _undoes(steps[position], steps[position - 1], labels.get(step.index) is StepLabel.GOOD)
        found.append(_selected(step, labels.get(step.index), repairs, first_error, judgement.redundant_steps, usual))
    return found


def _selected(
    step: Step,
    label: StepLabel | None,
    repairs: bool,
    first_error: int | None,
    redundant: tuple[int, ...],
    usual: str,
) -> Selected:
    if step.action is None:
        return Selected(None, "unparsed")
    if label is StepLabel.HARMFUL:
        return Selected(None, "harmful")
    if step.index == first_error:
        return Selected(None, "first_error")
    if repairs:
        return Selected(SELF_CORRECTION)
    if first_error is not None and step.index > first_error:
        return Selected(None, "after_first_error")
    if step.index in redundant:
        return Selected(None, "redundant")
    unchanged = step.screen_before == step.screen_after and not ends_episode(action_from_json(step.action))
    if label is StepLabel.NEUTRAL and unchanged:
        return Selected(None, "no_effect")
    return Selected(usual)


def _undoes(step: SeenStep, error: SeenStep, good: bool) -> bool:
    """Whether a step undoes an error.

    It leads back to the screen before it; or it is good, and leads back to that page, or sets again what the error set.
    """
    wrong, mended = error.outcome, step.outcome
    if mended.same or wrong.same:
        return False
    if mended.after.screen_id == wrong.before.screen_id:
        return True
    if wrong.before.page == "" or wrong.before.page != mended.after.page:
        return False
    if wrong.opened:
        return good and mended.opened
    return good and _set_by(error) == _set_by(step) != frozenset()


def _set_by(step: SeenStep) -> frozenset[str]:
    """The controls that a step set, or the list of the item that it picked in place."""
    element = step.action.element
    if step.outcome.changes or element is None or element.role != "list_item":
        return frozenset(change.control.key for change in step.outcome.changes)
    return frozenset({element.element_id.rpartition("/")[0]})


@dataclass(frozen=True)
class StepData:
    """Derives step data; needs no model."""

    spec: StepDataSpec
    maker: Maker
    screens: ScreenReader

    async def derive(self, episode: Episode, only: frozenset[int] | None = None) -> DerivedRows:
        """One example for each step that CODA's signals leave."""
        collected = Collected(self.maker, episode)
        selected = select_steps(episode, self.spec, self.screens)
        if isinstance(selected, str):
            collected.refuse(selected)
            return collected.rows()
        for step, made in zip(episode.steps, selected, strict=True):
            lesson = self._lesson(episode, step, made.variant) if made.variant is not None else made.reason
            if isinstance(lesson, str):
                collected.refuse(lesson, step)
            else:
                collected.add(lesson, step)
        return collected.rows()

    def _lesson(self, episode: Episode, step: Step, variant: str) -> Lesson | str:
        """The example of a step, or the reason why there is none."""
        dialect, frame = dialect_for(episode.query.platform), native_frame(self.screens.size(step.screen_before))
        action = action_from_json(step.action or "")
        text = rendered(Reply(step.thought, action, step.conclusion), dialect, frame)
        if text is None:
            return "not_round_trip"
        reason = unfit_text(step, text, episode.guidance)
        if reason is not None:
            return reason
        messages = (*prompt_messages(dialect, step, frame), Message(role="assistant", content=text))
        return Lesson(messages, (step.screen_before,), variant, episode.trajectory.model_version, action)
