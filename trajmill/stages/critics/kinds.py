"""The kinds of critics that ask no model."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from trajmill.schemas.spec import Spec
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    from trajmill.stages.critics.base import StepCritic, TrajectoryCritic

CRITICS: Final = PartGroup(
    "trajmill.critics",
    "critic",
    {
        "annotated_step": "trajmill.stages.critics.annotated.spec:AnnotatedStepSpec",
        "annotated_text": "trajmill.stages.critics.annotated.spec:AnnotatedTextSpec",
        "annotated_tree": "trajmill.stages.critics.annotated.spec:AnnotatedTreeSpec",
        "graph_step": "trajmill.stages.critics.app_graph.spec:GraphStepSpec",
        "graph_way": "trajmill.stages.critics.app_graph.spec:GraphWaySpec",
        "graph_end": "trajmill.stages.critics.app_graph.spec:GraphEndSpec",
    },
)


class StepCriticSpec(Spec):
    """A critic of steps that asks no model; `judge.step_critic` names its kind."""

    @abstractmethod
    def open(self) -> StepCritic:
        """The critic."""


class TrajectoryCriticSpec(Spec):
    """A critic of trajectories that asks no model; `judge.text_critic` or `judge.multimodal_critic` names its kind."""

    @abstractmethod
    def open(self) -> TrajectoryCritic:
        """The critic."""


def step_critic_spec(kind: str) -> StepCriticSpec:
    """The spec of a kind with its defaults.

    Raises:
        BadInputError: there is no such kind, and the message names the nearest; or it is no critic of steps.
    """
    return CRITICS.default_spec(kind, StepCriticSpec)


def trajectory_critic_spec(kind: str) -> TrajectoryCriticSpec:
    """The spec of a kind with its defaults.

    Raises:
        BadInputError: there is no such kind, and the message names the nearest; or it is no critic of trajectories.
    """
    return CRITICS.default_spec(kind, TrajectoryCriticSpec)
