"""The specs of the critics that know the annotations of app graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trajmill.stages.critics.kinds import CriticSpec

if TYPE_CHECKING:
    from trajmill.stages.critics.base import TrajectoryCritic


class AnnotatedTextSpec(CriticSpec):
    """Reads what happened in words, and the annotations of the query."""

    kind: Literal["annotated_text"] = "annotated_text"
    """Reads what happened in words, and the annotations of the query."""

    def open(self) -> TrajectoryCritic:
        """The critic."""
        from trajmill.stages.critics.annotated.text_channel import AnnotatedTextChannel

        return AnnotatedTextChannel()


class AnnotatedTreeSpec(CriticSpec):
    """Reads accessibility trees, and the annotations of the query."""

    kind: Literal["annotated_tree"] = "annotated_tree"
    """Reads accessibility trees, and the annotations of the query."""

    def open(self) -> TrajectoryCritic:
        """The critic."""
        from trajmill.stages.critics.annotated.tree_channel import AnnotatedTreeChannel

        return AnnotatedTreeChannel()
