"""The kinds of critics of trajectories that ask no model."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from trajmill.schemas.spec import Spec
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    from trajmill.stages.critics.base import TrajectoryCritic

CRITICS: Final = PartGroup(
    "trajmill.critics",
    "critic",
    {
        "annotated_text": "trajmill.stages.critics.annotated.spec:AnnotatedTextSpec",
        "annotated_tree": "trajmill.stages.critics.annotated.spec:AnnotatedTreeSpec",
    },
)


class CriticSpec(Spec):
    """A critic of trajectories that asks no model, named by `judge.text_critic` or `judge.multimodal_critic`."""

    @abstractmethod
    def open(self) -> TrajectoryCritic:
        """The critic."""


def critic_spec(kind: str) -> CriticSpec:
    """The spec of a kind, as it is by default.

    Raises:
        BadInputError: there is no such kind, or it is no critic of trajectories; the nearest one is named.
    """
    return CRITICS.default_spec(kind, CriticSpec)
