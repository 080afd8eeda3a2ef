"""The specs of the critics that judge by the graphs of live apps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trajmill.stages.critics.kinds import StepCriticSpec, TrajectoryCriticSpec

if TYPE_CHECKING:
    from trajmill.stages.critics.base import StepCritic, TrajectoryCritic
    from trajmill.stages.graphs.base import AppGraph


class GraphStepSpec(StepCriticSpec):
    """Compares each step with the graph of the app."""

    kind: Literal["graph_step"] = "graph_step"
    """Compares each step with the graph of the app."""
    graphs: tuple[Path, ...] = ()
    """Files of the graphs."""

    def open(self) -> StepCritic:
        """The critic."""
        from trajmill.stages.critics.app_graph.step_critic import GraphStepCritic

        return GraphStepCritic(_by_app(self.graphs))


class GraphWaySpec(TrajectoryCriticSpec):
    """Judges the way: nothing destructive, and nothing that nobody asked for."""

    kind: Literal["graph_way"] = "graph_way"
    """Judges the way by the graph of the app: nothing destructive, and nothing that nobody asked for."""
    graphs: tuple[Path, ...] = ()
    """Files of the graphs."""

    def open(self) -> TrajectoryCritic:
        """The critic."""
        from trajmill.stages.critics.app_graph.channels import way_channel

        return way_channel(_by_app(self.graphs))


class GraphEndSpec(TrajectoryCriticSpec):
    """Judges the end: the page of the task is reached, and its values stand there."""

    kind: Literal["graph_end"] = "graph_end"
    """Judges the end by the graph of the app: its page is reached, and the values stand there."""
    graphs: tuple[Path, ...] = ()
    """Files of the graphs."""

    def open(self) -> TrajectoryCritic:
        """The critic."""
        from trajmill.stages.critics.app_graph.channels import end_channel

        return end_channel(_by_app(self.graphs))


def _by_app(files: tuple[Path, ...]) -> dict[str, AppGraph]:
    """The graphs by app.

    Raises:
        BadInputError: a file is no graph.
    """
    from trajmill.stages.graphs.file import read_graph

    return {graph.app: graph for graph in map(read_graph, files)}
