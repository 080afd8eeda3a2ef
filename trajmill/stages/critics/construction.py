"""Makes the critics of a judge from its spec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import (
    SeveralVotesCritic,
    StepCritic,
    StepResult,
    TrajectoryCritic,
    Vote,
    VoteFailure,
    vote_of,
    votes_together,
)
from trajmill.stages.critics.calibration.agreement import PASSED
from trajmill.stages.critics.judge import Judge
from trajmill.stages.critics.kinds import step_critic_spec, trajectory_critic_spec
from trajmill.stages.critics.model.captioner import ModelCaptioner, ScreenCaptioner, TreeCaptioner
from trajmill.stages.critics.model.channels import ModelMultimodalChannel, ModelTextChannel
from trajmill.stages.critics.model.step_critic import ModelStepCritic
from trajmill.stages.critics.spec import CriticModel, CriticModels, JudgeSpec
from trajmill.stages.critics.voting import ChannelCritics, ChannelRule
from trajmill.stages.models.base import USUAL_BUDGET, ChatModel, ContextBudget
from trajmill.stages.models.prompts import Sampling


class ProgrammaticChannel:
    """Votes Correct if the environment's own check passed."""

    channel = Channel.PROGRAMMATIC
    resolution = "full"
    version = "programmatic/1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote by the programmatic reward.

        Raises:
            JudgeFailure: the environment has no check.
        """
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
        """The channel of the other critic."""
        return self.inner.channel

    @property
    def resolution(self) -> str:
        """The resolution of the other critic."""
        return self.inner.resolution

    @property
    def version(self) -> str:
        """The version of the other critic, and the error rates."""
        return f"{self.inner.version}~fp{self.false_positive:g}/fn{self.false_negative:g}/{self.seed}"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """The vote of the other critic, sometimes flipped.

        Raises:
            JudgeFailure: the critic that is disturbed gave no usable vote.
        """
        return self._with_noise(await self.inner.judge(episode, screens, steps, draw), episode, steps, draw)

    @property
    def votes_together(self) -> bool:
        """Whether the other critic casts several votes together."""
        return votes_together(self.inner)

    async def judge_together(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draws: Sequence[int]
    ) -> list[Vote | VoteFailure]:
        """The votes of the other critic, some of them flipped.

        Raises:
            JudgeFailure: the critic that is disturbed gave no usable vote.
        """
        assert isinstance(self.inner, SeveralVotesCritic)
        votes = await self.inner.judge_together(episode, screens, steps, draws)
        return [
            self._with_noise(vote, episode, steps, draw) if isinstance(vote, Vote) else vote
            for draw, vote in zip(draws, votes, strict=True)
        ]

    def _with_noise(self, vote: Vote, episode: Episode, steps: Sequence[StepResult], draw: int) -> Vote:
        if self._chance(episode.trajectory.trajectory_id, draw) >= (
            self.false_negative if vote.correct else self.false_positive
        ):
            return vote._replace(made_by=self.version)
        error = steps[-1].index if vote.correct and steps else None
        return vote_of(self, not vote.correct, "noise", vote.redundant_steps, error)

    def _chance(self, trajectory_id: str, draw: int) -> float:
        what = (self.seed, self.channel, self.resolution, self.inner.version, trajectory_id, draw)
        return Random(int(content_id("noise", *what), 16)).random()


class JudgeConstruction(NamedTuple):
    """The spec of a judge, and a function that connects its models."""

    spec: JudgeSpec
    models: CriticModels
    connect: Callable[[CriticModel], ChatModel]

    def judge(self) -> Judge:
        """The judge with all its critics."""
        rule = self.spec.rule(self.models)
        return Judge(self._step_critic(), tuple(map(self._channel, rule.channels)), self.spec.ask)

    def _channel(self, rule: ChannelRule) -> ChannelCritics:
        scales = self.spec.scales(rule.channel, self.models)
        passes = zip(rule.passes, scales, strict=True)
        critics = tuple(
            tuple(map(self._with_noise, self._critics(rule.channel, scale, one.votes > 1))) for one, scale in passes
        )
        return ChannelCritics(rule, critics, self.spec.tries)

    def _step_critic(self) -> StepCritic:
        model, spec = self.models.step, self.spec
        if model is None:
            return step_critic_spec(spec.step_critic, spec.critics.get(spec.step_critic)).open(spec.graphs)
        return ModelStepCritic(
            self.connect(model), self.models.prompts.step, Sampling(seed=self.models.seed), model.budget
        )

    def _critics(self, channel: Channel, scale: float, several: bool) -> list[TrajectoryCritic]:
        # CODA samples several votes (its 4.2); a single vote is the model's most likely answer.
        sampling = Sampling(1.0, 0.6, self.models.seed) if several else Sampling(seed=self.models.seed)
        models = [(self.connect(model), model.budget) for model in self.models.of(channel)]
        prompts = self.models.prompts
        match channel:
            case Channel.TEXT if models:
                captioner = self._captioner()
                return [
                    ModelTextChannel(model, prompts.text, sampling, _without_images(budget), captioner)
                    for model, budget in models
                ]
            case Channel.MULTIMODAL if models:
                return [
                    ModelMultimodalChannel(model, prompts.multimodal, sampling, budget, scale)
                    for model, budget in models
                ]
            case Channel.TEXT:
                return [self._without_model(self.spec.text_critic)]
            case Channel.MULTIMODAL:
                return [self._without_model(self.spec.multimodal_critic)]
            case Channel.PROGRAMMATIC:
                return [ProgrammaticChannel()]

    def _without_model(self, kind: str) -> TrajectoryCritic:
        return trajectory_critic_spec(kind, self.spec.critics.get(kind)).open(self.spec.graphs)

    def _captioner(self) -> ScreenCaptioner:
        if self.models.describer is None:
            return TreeCaptioner()
        model, sampling = self.connect(self.models.describer), Sampling(seed=self.models.seed)
        return TreeCaptioner(ModelCaptioner(model, self.models.prompts.describer, sampling=sampling))

    def _with_noise(self, critic: TrajectoryCritic) -> TrajectoryCritic:
        false_positive, false_negative = self.spec.false_positive, self.spec.false_negative
        if false_positive == 0.0 and false_negative == 0.0:
            return critic
        return NoisyChannel(critic, false_positive, false_negative, self.models.seed)


def _without_images(budget: ContextBudget) -> ContextBudget:
    """Without the bound on images, because captions are text."""
    return ContextBudget(screens=USUAL_BUDGET.screens, tokens=budget.tokens)
