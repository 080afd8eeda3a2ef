"""Makes examples of steps: end to end of accepted trajectories, and as CODA labels the steps of any.

End to end, the steps that were judged bad are left out: equation 2 of paper 2.2.3 with critic-based filtering, in the
format of paper 6.5. In step data (CODA 3.4), redundant steps and all after the first error are cut. Positive actions
may come from failed trajectories too, and a step that undoes the error of the step before it is kept even if it is
redundant, because it shows how an agent recovers.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple

from trajmill.schemas.actions import action_from_json, ends_episode
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.trajectory import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.candidates import STEP_SCORES
from trajmill.stages.critics.replay import SeenStep, replay
from trajmill.stages.derive.collected import (
    WALK_WORDS,
    Collected,
    KindDeriver,
    LeftOut,
    Lesson,
    example_of,
    is_walk,
    unaccepted,
    unfit,
)
from trajmill.stages.derive.conversation import step_messages
from trajmill.stages.derive.spec import RftDataSpec, StepDataSpec

KIND = "end_to_end"
MADE_BY = "derive.end_to_end/1"


class EndToEndExamples(NamedTuple):
    examples: tuple[Example, ...]
    dropped: tuple[LeftOut, ...]


def end_to_end_examples(episode: Episode, size_of: Callable[[str], Size], origin: Origin) -> EndToEndExamples:
    """Return an example for each kept step of an accepted training episode, guided or not.

    Steps labelled HARMFUL are left out, and NEUTRAL steps without an effect on the screen. The history in the prompts
    of later steps is not changed.

    Args:
        episode: with its step verdicts and its judgement.
        size_of: width and height of a stored screen (`ScreenReader.size`).
        origin: common columns of the rows.
    """
    trajectory_id = episode.trajectory.trajectory_id
    reason = unaccepted(episode)
    if reason is not None:
        return EndToEndExamples((), (LeftOut(trajectory_id, None, reason),))
    labels = episode.labels
    examples, dropped = [], []
    for step in episode.steps:
        messages = unlearned_step(step, labels.get(step.index)) or step_messages(
            episode, step, size_of(step.screen_before)
        )
        if isinstance(messages, str):
            dropped.append(LeftOut(trajectory_id, step.index, messages))
            continue
        example_id = content_id("example", KIND, trajectory_id, step.index, [m.content for m in messages])
        columns = {"example_id": example_id, **origin.common(MADE_BY)}
        examples.append(example_of(episode, step, KIND, messages, (step.screen_before,), step.action, **columns))
    return EndToEndExamples(tuple(examples), tuple(dropped))


def unlearned_step(step: Step, label: StepLabel | None) -> str | None:
    """Return why a step is not learned: its reply is no action, or it is harmful or useless; None if it is learned."""
    if step.action is None:
        return "unparsed"
    if label is StepLabel.HARMFUL:
        return "harmful"
    # The step that ends an episode never changes the screen, but a trajectory needs it.
    unchanged = step.screen_before == step.screen_after and not ends_episode(action_from_json(step.action))
    return "no_effect" if label is StepLabel.NEUTRAL and unchanged else None


POSITIVE = "positive"
"""A step of a correct trajectory."""
BEFORE_ERROR = "before_error"
"""A step of a failed trajectory, before its first error."""
SELF_CORRECTION = "self_correction"
"""A step that undoes the error of the step before it."""


class Selected(NamedTuple):
    variant: str | None
    reason: str = ""


def select_steps(episode: Episode, spec: StepDataSpec, screens: ScreenReader) -> list[Selected] | str:
    """Return the selection of each step, or the reason to refuse all. Raises JudgeFailure if a screen is missing."""
    unusable, judgement = unfit(episode), episode.judgement
    if unusable is not None or judgement is None:
        return unusable or "not_judged"
    first_error = judgement.first_error_step
    if not judgement.correct and not spec.failed:
        return "judged_incorrect"
    if not judgement.correct and first_error is None:
        return "no_first_error"
    labels = episode.labels
    # After the first error, even what undoes a later one does not lead back to the right way.
    errors = episode.harmful if first_error is None else {first_error}
    steps = replay(episode, screens) if errors else ()

    def selected(position: int, step: Step) -> Selected:
        label = labels.get(step.index)
        bad = unlearned_step(step, label)
        if bad is not None and bad != "no_effect":
            return Selected(None, bad)
        if step.index == first_error:
            return Selected(None, "first_error")
        follows_error = bool(steps) and position > 0 and episode.steps[position - 1].index in errors
        if follows_error and _undoes(steps[position], steps[position - 1], label is StepLabel.GOOD):
            return Selected(SELF_CORRECTION)
        if first_error is not None and step.index > first_error:
            return Selected(None, "after_first_error")
        if step.index in judgement.redundant_steps:
            return Selected(None, "redundant")
        return Selected(None, bad) if bad else Selected(POSITIVE if judgement.correct else BEFORE_ERROR)

    return [selected(position, step) for position, step in enumerate(episode.steps)]


def _undoes(step: SeenStep, error: SeenStep, good: bool) -> bool:
    """Return whether a step leads back to the screen before an error; or is good and leads to its page or resets it."""
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
    """Return the controls that a step set, or the list of the item that it picked in place."""
    element = step.action.element
    if step.outcome.changes or element is None or element.role != "list_item":
        return frozenset(change.control.key for change in step.outcome.changes)
    return frozenset({element.element_id.rpartition("/")[0]})


def collect_steps(episode: Episode, spec: StepDataSpec, screens: ScreenReader, collected: Collected) -> None:
    selected = select_steps(episode, spec, screens)
    if isinstance(selected, str):
        collected.refuse(selected)
        return
    for step, made in zip(episode.steps, selected, strict=True):
        if made.variant is None:
            collected.refuse(made.reason, step)
            continue
        messages = step_messages(episode, step, screens.size(step.screen_before))
        about = (made.variant, episode.trajectory.model_version, action_from_json(step.action or ""))
        lesson = messages if isinstance(messages, str) else Lesson(messages, (step.screen_before,), *about)
        collected.add_or_refuse(lesson, step)


class StepData(KindDeriver[StepDataSpec]):
    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        collect_steps(episode, self.spec, self.tools.screens, collected)


class RftRows(KindDeriver[RftDataSpec]):
    """Derives the rows of T-RFT's candidates that a process reward lets through (NaturalGAIA F); needs no model.

    The candidates are the attempts of the policy at one query, 16 in the paper. The mean of the step critic's labels
    replaces its process reward model. Corrected errors are kept, as in the paper (4.2).
    """

    def unusable(self, episode: Episode) -> str | None:
        if not episode.judged_reward:
            return unfit(episode)
        if is_walk(episode):
            return WALK_WORDS
        scores = [STEP_SCORES[label] for label in episode.labels.values()]
        if len(scores) < max(len(episode.steps), 1):
            return "no_process_reward"
        return "low_process_reward" if fmean(scores) < self.spec.least_reward else unfit(episode)

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        collect_steps(episode, StepDataSpec(failed=False), self.tools.screens, collected)
