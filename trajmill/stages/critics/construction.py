"""Makes the critics of a judge from its spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import StepCritic, TrajectoryCritic
from trajmill.stages.critics.calibration.noisy import NoisyChannel
from trajmill.stages.critics.consensus import Judge
from trajmill.stages.critics.kinds import step_critic_spec, trajectory_critic_spec
from trajmill.stages.critics.model.captioner import ModelCaptioner, ScreenCaptioner, TreeCaptioner
from trajmill.stages.critics.model.multimodal_channel import ModelMultimodalChannel
from trajmill.stages.critics.model.step_critic import ModelStepCritic
from trajmill.stages.critics.model.text_channel import ModelTextChannel
from trajmill.stages.critics.programmatic import ProgrammaticChannel
from trajmill.stages.critics.rule import ChannelRule
from trajmill.stages.critics.spec import CriticModel, CriticModels, JudgeSpec
from trajmill.stages.critics.voting import ChannelCritics
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.context_budget import USUAL_BUDGET, ContextBudget
from trajmill.stages.models.prompted import Sampling


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
