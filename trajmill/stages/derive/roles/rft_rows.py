"""Makes rows of the candidates of T-RFT that a process reward lets through (NaturalGAIA F).

The candidates are the attempts of the policy at one query: the paper samples 16, which `rollout.group_size = 16` does.
Its process reward model scores each of them; here the step critic's labels are the scores of the steps, and their mean
is the process reward. Corrected errors are kept on purpose, as in the paper (4.2).
"""

from __future__ import annotations

from dataclasses import dataclass

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.stages.curate.episodes import STEP_SCORES
from trajmill.stages.derive.base import DerivedRows
from trajmill.stages.derive.collected import WALK_WORDS, Collected, Maker, is_walk
from trajmill.stages.derive.roles.spec import RftDataSpec
from trajmill.stages.derive.step_data import StepData, StepDataSpec


@dataclass(frozen=True)
class RftRows:
    """Derives the rows of accepted candidates; needs no model."""

    spec: RftDataSpec
    maker: Maker
    screens: ScreenReader

    async def derive(self, episode: Episode, only: frozenset[int] | None) -> DerivedRows:
        """The steps of a correct trajectory whose process reward is high enough, as step data has them."""
        reward, judgement = process_reward(episode), episode.judgement
        is_correct = judgement is not None and judgement.correct
        refused = "low_process_reward" if reward is not None and reward < self.spec.least_reward else None
        if is_walk(episode):
            refused = WALK_WORDS
        if is_correct and refused is not None:
            collected = Collected(self.maker, episode)
            collected.refuse(refused)
            return collected.rows()
        return await StepData(StepDataSpec(failed=False), self.maker, self.screens).derive(episode)


def process_reward(episode: Episode) -> float | None:
    """The mean score of the steps, from 0 to 1; None if no step was judged."""
    scores = [STEP_SCORES[verdict.label] for verdict in episode.step_verdicts]
    return sum(scores) / len(scores) if scores else None
