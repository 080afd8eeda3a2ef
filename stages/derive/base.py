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
    """Why an episode may give no row; None if it may.

    The policy learns only from the split `train`. A failed episode, or one without a judgement, says nothing about the
    agent.
    """
    if episode.query.split is not Split.TRAIN:
        return "held_out"
    if episode.trajectory.purpose not in purposes:
        return "other_purpose"
    if episode.trajectory.status != "finished":
        return "failed"
    if episode.judgement is None:
        return "not_judged"
    if not episode.steps:
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
