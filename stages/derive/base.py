"""Shared by all derivations: which episodes are used for training, and the record of what is left out."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose


class LeftOut(NamedTuple):
    """A trajectory or a step that gave no training row, and why."""

    trajectory_id: str
    step_index: int | None
    """The step; None for a whole trajectory."""
    reason: str
    """Countable: `judged_incorrect`, `harmful`, `no_effect`, `unparsed`, ..."""


def unfit(episode: Episode, purposes: frozenset[Purpose]) -> str | None:
    """Why no row may be made of an episode, None if one may.

    Only the split `train` is ever learned from, and only what is evidence about the agent: a failed episode or one
    without a judgement says nothing.
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
    """The episode as an ablation sees it: accepted whatever the judge said, or with none of its steps criticised."""
    changes: dict[str, object] = {}
    if not step_critic:
        changes["step_verdicts"] = ()
    if not judge and episode.judgement is not None:
        changes["judgement"] = episode.judgement.model_copy(update={"correct": True})
    return episode.model_copy(update=changes)
