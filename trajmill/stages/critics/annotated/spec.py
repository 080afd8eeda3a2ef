"""The specs of the critics that know the annotations of app graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trajmill.stages.critics.kinds import StepCriticSpec, TrajectoryCriticSpec

if TYPE_CHECKING:
    from trajmill.stages.critics.base import StepCritic, TrajectoryCritic


class AnnotatedStepSpec(StepCriticSpec):
    """Compares the accessibility trees before and after a step with the annotations of the query."""

    kind: Literal["annotated_step"] = "annotated_step"
    """Compares the accessibility trees before and after a step with the annotations of the query."""

    def open(self) -> StepCritic:
        """The critic."""
        from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic

        return AnnotatedStepCritic()


class AnnotatedTextSpec(TrajectoryCriticSpec):
    """Compares captions of screens and steps with the annotations of the query."""

    kind: Literal["annotated_text"] = "annotated_text"
    """Compares captions of screens and steps with the annotations of the query."""

    def open(self) -> TrajectoryCritic:
        """The critic."""
        from trajmill.stages.critics.annotated.text_channel import AnnotatedTextChannel

        return AnnotatedTextChannel()


class AnnotatedTreeSpec(TrajectoryCriticSpec):
    """Compares the accessibility trees of all screens with the annotations of the query."""

    kind: Literal["annotated_tree"] = "annotated_tree"
    """Compares the accessibility trees of all screens with the annotations of the query."""

    def open(self) -> TrajectoryCritic:
        """The critic."""
        from trajmill.stages.critics.annotated.tree_channel import AnnotatedTreeChannel

        return AnnotatedTreeChannel()
