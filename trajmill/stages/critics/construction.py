"""Makes the critics of a judge from its spec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import (
    StepResult,
    TrajectoryCritic,
    Vote,
    VoteFailure,
    cast_votes,
    vote_of,
    votes_together,
)
from trajmill.stages.critics.calibration.agreement import PASSED
from trajmill.stages.critics.judge import Judge
from trajmill.stages.critics.kinds import step_critic_spec, trajectory_critic_spec
from trajmill.stages.critics.model.channels import ModelMultimodalChannel, ModelTextChannel
from trajmill.stages.critics.model.step_critic import ModelStepCritic
from trajmill.stages.critics.model.transcript import ScreenCaptioner
from trajmill.stages.critics.spec import CriticModel, CriticModels, JudgeSpec
from trajmill.stages.critics.voting import FULL, ChannelCritics
from trajmill.stages.models.base import USUAL_BUDGET, ChatModel, ContextBudget
from trajmill.stages.models.prompts import Sampling


class ProgrammaticChannel:
    """Votes Correct if the environment's own check passed."""

    channel, resolution = Channel.PROGRAMMATIC, FULL
    version = "programmatic/1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote by the programmatic reward. Raises JudgeFailure if the environment has no check."""
        reward = episode.trajectory.reward
        if reward is None:
            raise JudgeFailure(f"{episode.trajectory.trajectory_id}: the environment has no programmatic check")
        return vote_of(self, reward >= PASSED, f"the environment's check gave {reward:g}")


@dataclass(frozen=True, slots=True)
class NoisyChannel:
    """Flips votes of another critic at random, independently for each trajectory, critic, vote and seed."""

    inner: TrajectoryCritic
    false_positive: float
    """Probability that Incorrect becomes Correct."""
    false_negative: float
    """Probability that Correct becomes Incorrect."""
    seed: int

    @property
    def channel(self) -> Channel:
        return self.inner.channel

    @property
    def resolution(self) -> str:
        return self.inner.resolution

    @property
    def version(self) -> str:
        return f"{self.inner.version}~fp{self.false_positive:g}/fn{self.false_negative:g}/{self.seed}"

    @property
    def votes_together(self) -> bool:
        return votes_together(self.inner)

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        (vote,) = await self.judge_together(episode, screens, steps, [draw])
        if isinstance(vote, Vote):
            return vote
        raise vote

    async def judge_together(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draws: Sequence[int]
    ) -> list[Vote | VoteFailure]:
        votes = await cast_votes(self.inner, episode, screens, steps, draws)
        return [
            self._with_noise(vote, episode, steps, draw) if isinstance(vote, Vote) else vote
            for draw, vote in zip(draws, votes, strict=True)
        ]

    def _with_noise(self, vote: Vote, episode: Episode, steps: Sequence[StepResult], draw: int) -> Vote:
        what = (self.seed, self.channel, self.resolution, self.inner.version, episode.trajectory.trajectory_id, draw)
        chance = Random(int(content_id("noise", *what), 16)).random()
        if chance >= (self.false_negative if vote.correct else self.false_positive):
            return vote._replace(made_by=self.version)
        error = steps[-1].index if vote.correct and steps else None
        return vote_of(self, not vote.correct, "noise", vote.redundant_steps, error)


def build_judge(spec: JudgeSpec, models: CriticModels, connect: Callable[[CriticModel], ChatModel]) -> Judge:
    """Return the judge with all its critics; `connect` connects their models."""
    greedy, prompts = Sampling(seed=models.seed), models.prompts

    def critics_of(channel: Channel, scale: float, several: bool) -> tuple[TrajectoryCritic, ...]:
        # CODA samples several votes (its 4.2); a single vote is the model's most likely answer.
        sampling, found = Sampling(1.0, 0.6, models.seed) if several else greedy, list[TrajectoryCritic]()
        for model in models.of(channel):
            chat, budget = connect(model), model.budget
            if channel == Channel.MULTIMODAL:
                found.append(ModelMultimodalChannel(chat, prompts.multimodal, sampling, budget, scale))
                continue
            describer = connect(models.describer) if models.describer is not None else None
            # Captions are text, and images are unbounded.
            text_budget = ContextBudget(screens=USUAL_BUDGET.screens, tokens=budget.tokens)
            captioner = ScreenCaptioner(describer, prompts.describer, greedy)
            found.append(ModelTextChannel(chat, prompts.text, sampling, text_budget, captioner=captioner))
        if not found and channel == Channel.PROGRAMMATIC:
            found = [ProgrammaticChannel()]
        elif not found:
            kind = spec.text_critic if channel == Channel.TEXT else spec.multimodal_critic
            found = [trajectory_critic_spec(kind, spec.critics.get(kind)).open(spec.graphs)]
        if spec.false_positive == spec.false_negative == 0.0:
            return tuple(found)
        return tuple(NoisyChannel(each, spec.false_positive, spec.false_negative, models.seed) for each in found)

    if models.step is None:
        step_critic = step_critic_spec(spec.step_critic, spec.critics.get(spec.step_critic)).open(spec.graphs)
    else:
        step_critic = ModelStepCritic(connect(models.step), prompts.step, greedy, models.step.budget)
    channels = []
    for rule in spec.rule(models).channels:
        passes = zip(rule.passes, spec.scales(rule.channel, models), strict=True)
        critics = tuple(critics_of(rule.channel, scale, one.votes > 1) for one, scale in passes)
        channels.append(ChannelCritics(rule, critics, spec.tries))
    return Judge(step_critic, tuple(channels), spec.ask)
