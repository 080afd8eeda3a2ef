"""The kinds of critics that ask no model: ours, and those of other packages."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    from trajmill.stages.critics.base import StepCritic, TrajectoryCritic
    from trajmill.stages.graphs.base import AppGraph

_HERE = "trajmill.stages.critics.kinds"
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
    """A critic of steps that asks no model; `judge.step_critic` names its kind."""

    @abstractmethod
    def open(self, graphs: tuple[Path, ...]) -> StepCritic:
        """Open the critic; `graphs` are the files of the graphs of the run's apps."""


class TrajectoryCriticSpec(Spec):
    """A critic of trajectories that asks no model; `judge.text_critic` or `judge.multimodal_critic` names its kind."""

    @abstractmethod
    def open(self, graphs: tuple[Path, ...]) -> TrajectoryCritic: ...


class GraphStepSpec(StepCriticSpec):
    """Compares each step with the annotations of its query, or with the graph of its app."""

    kind: Literal["graph_step", "annotated_step"] = "graph_step"

    def open(self, graphs: tuple[Path, ...]) -> StepCritic:
        """Open the critic. Raises BadInputError if a file is no graph."""
        from trajmill.stages.critics.app_graph.channels import StepCriticByGraph

        return StepCriticByGraph(_by_app(graphs))


class _GraphChannelSpec(TrajectoryCriticSpec):
    channel: ClassVar[Channel]

    def open(self, graphs: tuple[Path, ...]) -> TrajectoryCritic:
        from trajmill.stages.critics.app_graph.channels import GraphChannel

        return GraphChannel(self.channel, _by_app(graphs))


class GraphTextSpec(_GraphChannelSpec):
    """Votes in the text channel by the annotations of a query, or by the graph of its app."""

    channel = Channel.TEXT
    kind: Literal["graph_way", "annotated_text"] = "graph_way"


class GraphTreeSpec(_GraphChannelSpec):
    """Votes in the multimodal channel by the annotations of a query, or by the graph of its app."""

    channel = Channel.MULTIMODAL
    kind: Literal["graph_end", "annotated_tree"] = "graph_end"


def _by_app(files: tuple[Path, ...]) -> dict[str, AppGraph]:
    from trajmill.stages.graphs.file import read_graph

    return {graph.app: graph for graph in map(read_graph, files)}


def step_critic_spec(kind: str, settings: dict[str, Any] | None = None) -> StepCriticSpec:
    """Return the spec of a kind. Raises BadInputError for an unknown or unfit kind, or a wrong setting."""
    return CRITICS.default_spec(kind, StepCriticSpec, settings)


def trajectory_critic_spec(kind: str, settings: dict[str, Any] | None = None) -> TrajectoryCriticSpec:
    """Return the spec of a kind; raises as `step_critic_spec`."""
    return CRITICS.default_spec(kind, TrajectoryCriticSpec, settings)
