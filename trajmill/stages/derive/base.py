"""What all derivations share: which episodes are used for training, what a deriver is, and what is left out."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.failure import Failure, Refusal
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose


class DerivedRows(NamedTuple):
    """What a deriver made of one episode."""

    examples: tuple[Example, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[Failure, ...] = ()
    """Examples that a model did not answer for."""


class Deriver(Protocol):
    """Derives the examples of one kind."""

    async def derive(self, episode: Episode, only: frozenset[int] | None) -> DerivedRows:
        """The examples of an episode, and why there are no more.

        Args:
            episode: with its verdicts and its guidance.
            only: the indices of the steps whose screens are to be used; None for all.
        """
        ...


class LeftOut(NamedTuple):
    """A trajectory or a step that gave no training row, and why."""

    trajectory_id: str
    step_index: int | None
    """The step; None for a whole trajectory."""
    reason: str
    """One word, so that reasons can be counted: `judged_incorrect`, `harmful`, `no_effect`, `unparsed`, ..."""


def unfit(episode: Episode, purposes: frozenset[Purpose]) -> str | None:
    """Why an episode may give no row; None if it may."""
    trajectory, is_judged = episode.trajectory, episode.judgement is not None
    return unfit_attempt(
        episode.query.split, trajectory.purpose, trajectory.status, is_judged, len(episode.steps), purposes
    )


def unfit_attempt(
    split: str, purpose: str, status: str, is_judged: bool, steps: int, purposes: frozenset[Purpose]
) -> str | None:
    """Why an attempt may give no row; None if it may.

    The policy learns only from the split `train`. A failed attempt, or one without a judgement, says nothing about the
    agent.
    """
    if split != Split.TRAIN:
        return "held_out"
    if purpose not in purposes:
        return "other_purpose"
    if status != "finished":
        return "failed"
    if not is_judged:
        return "not_judged"
    if not steps:
        return "no_steps"
    return None


def as_trusted(episode: Episode, judge: bool, step_critic: bool) -> Episode:
    """The episode as an ablation uses it.

    Args:
        episode: with its verdicts.
        judge: False counts the episode as correct, whatever the judge said.
        step_critic: False removes the verdicts on its steps.
    """
    changes: dict[str, object] = {}
    if not step_critic:
        changes["step_verdicts"] = ()
    if not judge and episode.judgement is not None:
        changes["judgement"] = episode.judgement.model_copy(update={"correct": True})
    return episode.model_copy(update=changes)
