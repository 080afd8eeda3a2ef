"""The spec of a judge, its section of the configuration, and the kinds of critics that ask no model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import Field, NonNegativeInt, PositiveInt, ValidationInfo, field_validator

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import known_by
from trajmill.schemas.record import Origin
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.voting import (
    Ask,
    ChannelCritics,
    ChannelRule,
    PassRule,
    ProgrammaticChannel,
    Rule,
    StepCritic,
    TrajectoryCritic,
    resolution_of,
)
from trajmill.stages.models.base import USUAL_BUDGET, ContextBudget
from trajmill.stages.models.prompts import Prompt, Sampling, load_prompt
from trajmill.stages.models.spec import Endpoint, OpenEndpoints
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    from trajmill.stages.critics.judge import Judge
    from trajmill.stages.graphs.base import AppGraph

_HERE = "trajmill.stages.critics.spec"
CRITICS: Final = PartGroup(
    "trajmill.critics",
    "critic",
    {
        "annotated_step": f"{_HERE}:GraphStepSpec",
        "annotated_text": f"{_HERE}:GraphTextSpec",
        "annotated_tree": f"{_HERE}:GraphTreeSpec",
        "graph_step": f"{_HERE}:GraphStepSpec",
        "graph_way": f"{_HERE}:GraphTextSpec",
        "graph_end": f"{_HERE}:GraphTreeSpec",
    },
)


class StepCriticSpec(Spec):
    """A critic of steps that calls no model; `judge.step_critic` names its kind."""

    @abstractmethod
    def open(self, graphs: tuple[Path, ...]) -> StepCritic:
        """Open the critic; `graphs` are the files of the graphs of the run's apps."""


class TrajectoryCriticSpec(Spec):
    """A critic of trajectories that calls no model; `judge.text_critic` or `judge.multimodal_critic` names its kind."""

    @abstractmethod
    def open(self, graphs: tuple[Path, ...]) -> TrajectoryCritic: ...


class GraphStepSpec(StepCriticSpec):
    """Compares each step with the annotations of its query, or with the graph of its app."""

    kind: Literal["graph_step", "annotated_step"] = "graph_step"

    def open(self, graphs: tuple[Path, ...]) -> StepCritic:
        """Open the critic. Raises BadInputError if a file is no graph."""
        from trajmill.stages.critics.app_graph.channels import StepCriticByGraph

        return StepCriticByGraph(_by_app(graphs))


class GraphTextSpec(TrajectoryCriticSpec):
    """Votes in its channel by the annotations of a query, or by the graph of its app."""

    channel: ClassVar[Channel] = Channel.TEXT
    kind: str = "graph_way"

    def open(self, graphs: tuple[Path, ...]) -> TrajectoryCritic:
        from trajmill.stages.critics.app_graph.channels import GraphChannel

        return GraphChannel(self.channel, _by_app(graphs))


class GraphTreeSpec(GraphTextSpec):
    channel = Channel.MULTIMODAL
    kind: str = "graph_end"


def _by_app(files: tuple[Path, ...]) -> dict[str, AppGraph]:
    from trajmill.stages.graphs.file import read_graph

    return {graph.app: graph for graph in map(read_graph, files)}


class CriticPrompts(NamedTuple):
    step: Prompt
    text: Prompt
    multimodal: Prompt
    describer: Prompt
    milestones: Prompt
    milestone: Prompt
    review: Prompt


_PROMPTS: Final = (
    *("critic_step-2", "critic_text-3", "critic_multimodal-3", "describer_screen-1"),
    *("critic_milestones-2", "critic_milestone-2", "critic_review-2"),
)


def critic_prompts(own: Mapping[str, Any] = {}) -> CriticPrompts:
    """Read the prompts, of the user by the keys of `[prompts]`; raises BadInputError if a file is unusable."""
    load = partial(load_prompt, "trajmill.stages.critics.model")
    return CriticPrompts(*(load(name, own.get(name.rpartition("-")[0])) for name in _PROMPTS))


@dataclass(frozen=True)
class CriticModels:
    """The models of the critics, and their prompts; equal specs are one model. Critics without one are annotated."""

    step: Endpoint | None = None
    text: tuple[Endpoint, ...] = ()
    multimodal: tuple[Endpoint, ...] = ()
    """Several models of a channel are an ensemble."""
    describer: Endpoint | None = None
    """Describes screens without an accessibility tree for the text channel."""
    prompts: CriticPrompts = field(default_factory=critic_prompts)
    seed: int = 0
    """Seed of sampled answers, and of intentional errors."""

    def of(self, channel: Channel) -> tuple[Endpoint, ...]:
        return {Channel.TEXT: self.text, Channel.MULTIMODAL: self.multimodal}.get(channel, ())


_TrajectoryCriticKind = Annotated[str, known_by(lambda kind: CRITICS.default_spec(kind, TrajectoryCriticSpec))]


class JudgeSpec(Spec):
    """The critics that vote on a trajectory, and how the votes are combined."""

    channels: Annotated[tuple[Channel, ...], Field(min_length=1)] = (Channel.TEXT, Channel.MULTIMODAL)
    """Channels that must all vote Correct, in this order. `programmatic` is the environment's own check; `probe` reads
    the screens of `rollout.probe`."""
    votes: PositiveInt = 1
    """Votes of a channel at each resolution, sampled at temperature 1 if there are several. The models of an ensemble
    take turns, and each votes at least once."""
    quorum: NonNegativeInt = 0
    """Votes at each resolution that must say Correct; 0 means all of them."""
    tries: PositiveInt = 2
    """Tries of a vote before it counts as missing. A missing vote is neither Correct nor Incorrect."""
    resolutions: Annotated[tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...], Field(min_length=1)] = (1.0,)
    """Factors for the width and height of the screenshots that a multimodal model sees, e.g. `[0.5, 1.0]`. Only
    trajectories judged correct at the first are judged at the next."""
    ask: Ask = Ask.CHANNELS
    """`needed` stops when the judgement is certain; `channels` asks every channel, so that each can be calibrated, and
    stops when the channel's result is certain; `all` asks for every vote at every resolution. The judgement is the
    same. Votes of one model on the same screenshots are one request if its server gives several answers to one."""
    concurrency: Annotated[PositiveInt, OPERATIONAL] = 64
    """Trajectories that one worker judges at the same time."""
    step_critic: Annotated[str, known_by(lambda kind: CRITICS.default_spec(kind, StepCriticSpec))] = "annotated_step"
    """Kind of the critic that judges each step if `models.critic.step` names no model."""
    text_critic: _TrajectoryCriticKind = "annotated_text"
    """Kind of the critic that votes in the text channel if `models.critic.text` names no model."""
    multimodal_critic: _TrajectoryCriticKind = "annotated_tree"
    """Kind of the critic that votes in the multimodal channel if `models.critic.multimodal` names no model."""
    milestones: bool = False
    """Whether the models of the multimodal channel name the milestones of the goal, check each on its own screens, and
    then review the evidence. Costs two requests plus one for each milestone, instead of one."""
    graphs: tuple[Path, ...] = ()
    """Files of the graphs of apps that critics without a model judge by; those of `[graphs]` if empty."""
    critics: dict[str, dict[str, Any]] = {}
    """Settings of critics without a model, by kind, e.g. `[judge.critics.my_critic]` for a critic of your own
    package."""

    @field_validator("critics")
    @classmethod
    def _known_settings(cls, critics: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for kind, settings in critics.items():
            try:
                CRITICS.default_spec(kind, Spec, settings)
            except BadInputError as error:
                raise ValueError(str(error)) from None
        return critics

    @field_validator("quorum")
    @classmethod
    def _reachable(cls, quorum: int, info: ValidationInfo) -> int:
        if quorum > info.data.get("votes", quorum):
            raise ValueError("should be at most the number of votes")
        return quorum

    @field_validator("resolutions")
    @classmethod
    def _rising(cls, resolutions: tuple[float, ...]) -> tuple[float, ...]:
        if list(resolutions) != sorted(set(resolutions)):
            raise ValueError("should rise, cheapest first")
        return resolutions

    def rule(self, models: CriticModels) -> Rule:
        """Return how the votes of these models are combined; no model is connected."""
        channels = []
        for channel in self.channels:
            voters = max(1, len(models.of(channel)))
            votes = max(self.votes, voters)
            scales = self._scales(channel, models)
            passes = (PassRule(votes, self.quorum or votes, resolution_of(scale), voters) for scale in scales)
            channels.append(ChannelRule(channel, tuple(passes)))
        return Rule(tuple(channels))

    def _scales(self, channel: Channel, models: CriticModels) -> tuple[float, ...]:
        """Return the factor for the size of screenshots in each pass; only multimodal models read screenshots."""
        return self.resolutions if channel == Channel.MULTIMODAL and models.multimodal else (1.0,)

    @asynccontextmanager
    async def open(
        self, models: CriticModels, origin: Origin, sink: Callable[[ModelCall], None]
    ) -> AsyncIterator[Judge]:
        """Open the judge, each model connected once. Raises BadInputError if a model cannot be connected."""
        from trajmill.stages.critics.judge import Judge
        from trajmill.stages.critics.model.channels import ModelStepCritic

        async with OpenEndpoints(origin, sink) as endpoints:
            # CODA samples several votes (its 4.2); a single vote is the model's most likely answer.
            greedy, sampled = Sampling(seed=models.seed), Sampling(1.0, 0.6, models.seed)
            if models.step is None:
                settings = self.critics.get(self.step_critic)
                step_critic = CRITICS.default_spec(self.step_critic, StepCriticSpec, settings).open(self.graphs)
            else:
                chat, budget = endpoints.model(models.step), models.step.spec.context_budget
                step_critic = ModelStepCritic(chat, models.prompts.step, greedy, budget)
            channels = []
            for rule in self.rule(models).channels:
                critics = []
                for one, scale in zip(rule.passes, self._scales(rule.channel, models), strict=True):
                    sampling = sampled if one.votes > 1 else greedy
                    critics.append(self._critics(rule.channel, models, endpoints, scale, sampling))
                channels.append(ChannelCritics(rule, tuple(critics), self.tries))
            yield Judge(step_critic, tuple(channels), self.ask)

    def _critics(
        self,
        channel: Channel,
        models: CriticModels,
        endpoints: OpenEndpoints,
        scale: float,
        sampling: Sampling,
    ) -> tuple[TrajectoryCritic, ...]:
        from trajmill.stages.critics.model.channels import ModelChannel
        from trajmill.stages.critics.model.milestones import MilestoneChannel
        from trajmill.stages.critics.model.transcript import ScreenCaptioner

        prompts, found = models.prompts, list[TrajectoryCritic]()
        for model in models.of(channel):
            chat, budget = endpoints.model(model), model.spec.context_budget
            if channel == Channel.MULTIMODAL and self.milestones:
                found.append(MilestoneChannel(chat, prompts, sampling, budget, scale))
            elif channel == Channel.MULTIMODAL:
                found.append(ModelChannel(chat, prompts.multimodal, sampling, budget, scale))
            else:
                describer = endpoints.model(models.describer) if models.describer is not None else None
                captioner = ScreenCaptioner(prompts.describer, describer, Sampling(seed=models.seed))
                # Captions are text, and images are unbounded.
                text_budget = ContextBudget(screens=USUAL_BUDGET.screens, tokens=budget.tokens)
                found.append(ModelChannel(chat, prompts.text, sampling, text_budget, captioner=captioner))
        if channel == Channel.PROGRAMMATIC:
            return (ProgrammaticChannel(),)
        if channel == Channel.PROBE:
            from trajmill.stages.critics.app_graph.probe import ProbeChannel

            return (ProbeChannel(_by_app(self.graphs)),)
        kind = self.text_critic if channel == Channel.TEXT else self.multimodal_critic
        spec = CRITICS.default_spec(kind, TrajectoryCriticSpec, self.critics.get(kind))
        return tuple(found) or (spec.open(self.graphs),)
