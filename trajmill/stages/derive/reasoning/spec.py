"""The spec of reasoning data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from trajmill.stages.derive.kind_spec import KindSpec, Tools

if TYPE_CHECKING:
    from trajmill.stages.derive.base import Deriver


class ReasoningSpec(KindSpec):
    """Thoughts for the steps of correct trajectories, written and checked by models: `trajmill derive reasoning`."""

    name: ClassVar[str] = "reasoning"
    version: ClassVar[str] = "2"
    roles: ClassVar[tuple[str, ...]] = ("describer", "writer")
    needs: ClassVar[tuple[str, ...]] = ("describer",)
    prompts: ClassVar[tuple[str, ...]] = ("think", "act", "merge")

    sources: tuple[Literal["offline", "agents", "online"], ...] = ("offline", "agents", "online")
    """`offline`: `derive.describer` thinks anew. `agents`: `derive.writer` merges what the roles of a multi-agent
    framework said. `online`: the policy's own thought, if a model wrote it."""
    styles: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "Go through it in this order: what the screen shows, what is done so far, what is missing, what to do now.",
        "Think as briefly as you can: one short sentence.",
        "Weigh two things that could be done now against each other, then choose.",
    )
    """What a thought is asked to be like; each step begins with another one."""
    tries: PositiveInt = 2
    """Thoughts that are tried before the model is told the right action, which is the last try."""
    hint: bool = True
    """Whether it is told the right action at last."""

    def open(self, tools: Tools) -> Deriver:
        """What derives thoughts."""
        from trajmill.stages.derive.reasoning.deriver import Reasoning

        return Reasoning(self, tools)
