"""What all derivations share: the episodes that are used, their rows, and the reasons for leaving something out."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.failure import Failure, Refusal
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose

LEARNED_FROM: Final = frozenset({Purpose.TRAIN, Purpose.GUIDED, Purpose.IMPORTED})
"""Purposes of the attempts that give training rows."""


class DerivedRows(NamedTuple):
    """The rows of one episode."""

    examples: tuple[Example, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[Failure, ...] = ()
    """Examples that a model did not answer for."""


class Deriver(Protocol):
    """Derives the examples of one kind."""

    async def derive(self, episode: Episode, only: frozenset[int] | None) -> DerivedRows:
        """Return the examples of an episode, and the reasons for those that are missing.

        Args:
            episode: with its verdicts and its guidance.
            only: the indices of the steps whose screens are used; None for all.
        """
        ...


class LeftOut(NamedTuple):
    """A trajectory or a step that gave no training row."""

    trajectory_id: str
    step_index: int | None
    """None for a whole trajectory."""
    reason: str
    """One word to count by: `judged_incorrect`, `harmful`, `no_effect`, `unparsed`, ..."""


def unfit(episode: Episode) -> str | None:
    """Return why an episode gives no row; None if it may give some."""
    trajectory, is_judged = episode.trajectory, episode.judgement is not None
    return unfit_attempt(
        episode.query.split, trajectory.purpose, trajectory.status, is_judged, len(episode.steps), LEARNED_FROM
    )


def unaccepted(episode: Episode) -> str | None:
    """Return why an episode is not usable or not judged correct; None if it is both."""
    reason = unfit(episode)
    is_correct = episode.judgement is not None and episode.judgement.correct
    return reason or (None if is_correct else "judged_incorrect")


def unfit_attempt(
    split: str, purpose: str, status: str, is_judged: bool, steps: int, purposes: frozenset[Purpose]
) -> str | None:
    """Return why an attempt gives no row; None if it may give some.

    Only the split `train` is learned from. Failed and unjudged attempts carry no information about the agent.
    """
    if split != Split.TRAIN:
        return "held_out"
    if purpose not in purposes:
        return "other_purpose"
    if status != "finished":
        return "failed"
    if not is_judged:
        return "not_judged"
    return None if steps else "no_steps"


def as_trusted(episode: Episode, judge: bool, step_critic: bool) -> Episode:
    """Return the episode as an ablation uses it.

    Args:
        episode: with its verdicts.
        judge: False counts the episode as correct, whatever its judgement.
        step_critic: False removes the step verdicts.
    """
    changes: dict[str, object] = {}
    if not step_critic:
        changes["step_verdicts"] = ()
    if not judge and episode.judgement is not None:
        changes["judgement"] = episode.judgement.model_copy(update={"correct": True})
    return episode.model_copy(update=changes)
