"""Which judge to build: the embedded state critics, or critics on models, and how they vote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trajmill.pipelines.models import Endpoint, OpenEndpoints
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic
from trajmill.stages.critics.annotated.text_channel import AnnotatedTextChannel
from trajmill.stages.critics.annotated.tree_channel import AnnotatedTreeChannel
from trajmill.stages.critics.base import StepCritic, TrajectoryCritic
from trajmill.stages.critics.calibration.noisy import NoisyChannel
from trajmill.stages.critics.cascade import ChannelPlan
from trajmill.stages.critics.consensus import Ask, Judge
from trajmill.stages.critics.model.captioner import ModelCaptioner, ScreenCaptioner, TreeCaptioner, caption_prompt
from trajmill.stages.critics.model.multimodal_channel import ModelMultimodalChannel, multimodal_prompt
from trajmill.stages.critics.model.request import Sampling
from trajmill.stages.critics.model.step_critic import ModelStepCritic, step_prompt
from trajmill.stages.critics.model.text_channel import ModelTextChannel, text_prompt
from trajmill.stages.critics.programmatic import ProgrammaticChannel
from trajmill.stages.critics.rule import FULL, ChannelRule, PassRule, Rule
from trajmill.stages.critics.voting import Pass
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.context_budget import USUAL_BUDGET, ContextBudget
from trajmill.stages.models.prompts import Prompt

Connect = Callable[[Endpoint], ChatModel]


@dataclass(frozen=True)
class CriticModels:
    """The models behind the critics' roles; without any, the embedded state critic of the role."""

    step: Endpoint | None = None
    text: tuple[Endpoint, ...] = ()
    multimodal: tuple[Endpoint, ...] = ()
    """Several are an ensemble."""
    describer: Endpoint | None = None
    """Puts screens without an accessibility tree into words for the text channel."""

    def of(self, channel: Channel) -> tuple[Endpoint, ...]:
        """The models that vote in a channel."""
        return {Channel.TEXT: self.text, Channel.MULTIMODAL: self.multimodal}.get(channel, ())


class CriticPrompts(NamedTuple):
    """The prompts of the critics."""

    step: Prompt
    text: Prompt
    multimodal: Prompt
    describer: Prompt


def critic_prompts(
    step: Path | None = None,
    text: Path | None = None,
    multimodal: Path | None = None,
    describer: Path | None = None,
) -> CriticPrompts:
    """The prompts of the user's own files, and where there is none, those that come with the critics.

    Raises:
        BadInputError: a file cannot be read, or misses a section or a field.
    """
    return CriticPrompts(step_prompt(step), text_prompt(text), multimodal_prompt(multimodal), caption_prompt(describer))


@dataclass(frozen=True)
class JudgeSpec:
    """Which judge to build; picklable."""

    channels: tuple[Channel, ...]
    false_positive: float = 0.0
    """Noise per channel, for calibration studies."""
    false_negative: float = 0.0
    seed: int = 0
    votes: int = 1
    """Votes of a channel at each resolution; at least one of each model."""
    quorum: int = 0
    """Votes that must say Correct; 0: all."""
    tries: int = 1
    """Calls for one vote, at most."""
    resolutions: tuple[float, ...] = (1.0,)
    """Scales at which multimodal models see the screenshots, cheapest first."""
    ask: Ask = Ask.CHANNELS
    models: CriticModels = CriticModels()
    prompts: CriticPrompts = field(default_factory=critic_prompts)

    @property
    def rule(self) -> Rule:
        """How the votes are combined; connects to no model."""
        return Rule(
            tuple(
                ChannelRule(channel, tuple(self._pass_rule(channel, scale) for scale in self._scales(channel)))
                for channel in self.channels
            )
        )

    @asynccontextmanager
    async def open(self, origin: Origin, sink: Callable[[ModelCall], None]) -> AsyncIterator[Judge]:
        """The judge, its models connected, each model once, until the context ends.

        Args:
            origin: the common columns of the rows of model calls.
            sink: gets a row for each call to a model.

        Raises:
            BadInputError: a model cannot be connected.
        """
        async with OpenEndpoints(origin, sink) as endpoints:
            plans = tuple(self._plan(rule, endpoints.model) for rule in self.rule.channels)
            yield Judge(self._step_critic(endpoints.model), plans, self.ask)

    def _scales(self, channel: Channel) -> tuple[float, ...]:
        """Only models look at screenshots, and only in one channel."""
        return self.resolutions if channel is Channel.MULTIMODAL and self.models.multimodal else (1.0,)

    def _pass_rule(self, channel: Channel, scale: float) -> PassRule:
        models = max(1, len(self.models.of(channel)))
        votes = max(self.votes, models)
        return PassRule(votes, self.quorum or votes, FULL if scale == 1.0 else f"{scale:g}", models)

    def _plan(self, rule: ChannelRule, connect: Connect) -> ChannelPlan:
        return ChannelPlan(
            tuple(
                Pass(
                    tuple(map(self._disturbed, self._critics(rule.channel, scale, one.votes > 1, connect))),
                    one.votes,
                    one.quorum,
                    self.tries,
                    one.resolution,
                )
                for one, scale in zip(rule.passes, self._scales(rule.channel), strict=True)
            )
        )

    def _step_critic(self, connect: Connect) -> StepCritic:
        if self.models.step is None:
            return AnnotatedStepCritic()
        spec = self.models.step
        return ModelStepCritic(connect(spec), self.prompts.step, Sampling(seed=self.seed), spec.budget)

    def _critics(self, channel: Channel, scale: float, several: bool, connect: Connect) -> Sequence[TrajectoryCritic]:
        # CODA draws its votes so (its 4.2); a single one is the most likely answer.
        sampling = Sampling(1.0, 0.6, self.seed) if several else Sampling(seed=self.seed)
        models = [(connect(spec), spec.budget) for spec in self.models.of(channel)]
        match channel:
            case Channel.TEXT if models:
                captioner = self._captioner(connect)
                return [
                    ModelTextChannel(model, self.prompts.text, captioner, sampling, _without_images(budget))
                    for model, budget in models
                ]
            case Channel.MULTIMODAL if models:
                return [
                    ModelMultimodalChannel(model, self.prompts.multimodal, scale, sampling, budget)
                    for model, budget in models
                ]
            case Channel.TEXT:
                return [AnnotatedTextChannel()]
            case Channel.MULTIMODAL:
                return [AnnotatedTreeChannel()]
            case Channel.PROGRAMMATIC:
                return [ProgrammaticChannel()]

    def _captioner(self, connect: Connect) -> ScreenCaptioner:
        if self.models.describer is None:
            return TreeCaptioner()
        model, sampling = connect(self.models.describer), Sampling(seed=self.seed)
        return TreeCaptioner(ModelCaptioner(model, self.prompts.describer, sampling=sampling))

    def _disturbed(self, critic: TrajectoryCritic) -> TrajectoryCritic:
        if self.false_positive == 0.0 and self.false_negative == 0.0:
            return critic
        return NoisyChannel(critic, self.false_positive, self.false_negative, self.seed)


def _without_images(budget: ContextBudget) -> ContextBudget:
    """Captions are text: the images that a server allows do not bound them."""
    return ContextBudget(screens=USUAL_BUDGET.screens, tokens=budget.tokens)
