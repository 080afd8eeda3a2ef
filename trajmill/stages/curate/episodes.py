"""Leaves out trajectories and steps that were accepted but should not be learned from (GUI-Owl 2.2.3)."""

from __future__ import annotations

from typing import Final, NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.curate.grounded_answer import UNGROUNDED, is_ungrounded
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.curate.thought_action import contradiction

STEP_SCORES: Final = {StepLabel.GOOD: 1.0, StepLabel.NEUTRAL: 0.5, StepLabel.HARMFUL: 0.0}
"""CriticScore of paper 2.2.3: what a label of the step critic is worth."""
_USUAL_LEAST = 0.5
"""Up to this score, the derivation itself decides: it leaves out HARMFUL steps, and NEUTRAL ones without an effect."""
LOW_SCORE: Final = "low_step_score"


class RefusedStep(NamedTuple):
    """A step that is not learned from, and why."""

    step_index: int | None
    """None for the whole trajectory."""
    reason: str


class CuratedEpisode(NamedTuple):
    """An episode with the steps that are learned from, and what was left out."""

    episode: Episode | None
    """None if the whole trajectory was left out."""
    dropped: tuple[RefusedStep, ...]


def curated_episode(episode: Episode, spec: CurateSpec, screens: ScreenReader) -> CuratedEpisode:
    """The episode without what `spec` refuses.

    The prompts of the steps that stay are not changed: their history is what really happened.

    Args:
        episode: with its step verdicts.
        spec: what is refused.
        screens: where its screens are.
    """
    if spec.grounded_answers and is_ungrounded(episode, screens.elements):
        return CuratedEpisode(None, (RefusedStep(None, UNGROUNDED),))
    scores = {verdict.index: STEP_SCORES[verdict.label] for verdict in episode.step_verdicts}
    reasons = [_reason(step, scores.get(step.index), spec) for step in episode.steps]
    if not any(reasons):
        return CuratedEpisode(episode, ())
    kept = tuple(step for step, reason in zip(episode.steps, reasons, strict=True) if reason is None)
    dropped = (
        RefusedStep(step.index, reason)
        for step, reason in zip(episode.steps, reasons, strict=True)
        if reason is not None
    )
    return CuratedEpisode(episode.model_copy(update={"steps": kept}), tuple(dropped))


def _reason(step: Step, score: float | None, spec: CurateSpec) -> str | None:
    if score is not None and spec.least_step_score > _USUAL_LEAST and score < spec.least_step_score:
        return LOW_SCORE
    return contradiction(step) if spec.consistent_thoughts else None
