"""The spec of action semantics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from trajmill.schemas.spec import Fraction
from trajmill.stages.derive.kind_spec import KindSpec, Tools

if TYPE_CHECKING:
    from trajmill.stages.derive.base import Deriver


class ActionSemanticsSpec(KindSpec):
    """Action semantics from the screens before and after each step: `trajmill derive action_semantics`."""

    name: ClassVar[str] = "action_semantics"
    version: ClassVar[str] = "2"
    roles: ClassVar[tuple[str, ...]] = ("describer",)
    prompts: ClassVar[tuple[str, ...]] = ("describe_action", "check_effect")

    tiers: tuple[Literal["action", "effect"], ...] = ("action", "effect")
    """`action`: the action from both screens. `effect`: the action and what it changed, in words; compared from the
    trees of the screens unless `derive.describer` is a model."""
    candidates: PositiveInt = 2
    """Descriptions of an action that a model writes."""
    votes: PositiveInt = 3
    """Rounds in which it says whether a description fits what changed."""
    agree_from: Annotated[Fraction, Field(gt=0)] = 0.6
    """Smallest share of votes for a description that is kept; of several, the one with the most."""

    def open(self, tools: Tools) -> Deriver:
        """What derives action semantics."""
        from trajmill.stages.derive.semantics.deriver import ActionSemantics

        return ActionSemantics(self, tools)
