"""The specs of the agents."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Literal

from trajmill.schemas.spec import Spec

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Query
    from trajmill.stages.agents.base import Agent, AgentMaker, AgentModel


class AgentSpec(Spec):
    """Which agent acts: `[agent]`."""

    @abstractmethod
    def open(self, model: AgentModel | None) -> AgentMaker:
        """What makes the agent for a query; all agents share one model.

        Args:
            model: whom the agents ask; None only for a kind that asks nobody.

        Raises:
            ValueError: the kind asks a model and got none.
        """


class EndToEndSpec(AgentSpec):
    """One model that sees the screen and says what to do (paper 2.1)."""

    kind: Literal["end_to_end"] = "end_to_end"
    """One model that sees the screen and says what to do."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        """Agents that ask the model at its temperature."""
        from trajmill.stages.agents.end_to_end import EndToEndAgent

        asked = _given(model)

        def make(query: Query) -> Agent:
            return EndToEndAgent(
                asked.model, query.platform, asked.temperature, family=asked.family, with_tokens=asked.with_tokens
            )

        return make


class ExplorerSpec(AgentSpec):
    """The untrained embedded policy: random over what is on screen, with a prior on words that the instruction shares.

    Before its first update the policy's distribution over actions is the exploration policy.
    """

    kind: Literal["explorer"] = "explorer"
    """The untrained embedded policy."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        """Agents that ask the untrained model at temperature 1."""
        from trajmill.stages.agents.end_to_end import EndToEndAgent

        asked = _given(model)

        def make(query: Query) -> Agent:
            return EndToEndAgent(
                asked.model, query.platform, temperature=1.0, role="explorer", name="explorer", family=asked.family
            )

        return make


class ReferenceSpec(AgentSpec):
    """Walks the annotated path of its query; guidance is written from what it does (paper 6.4)."""

    kind: Literal["reference"] = "reference"
    """Walks the annotated path of its query, and asks no model."""
    reads_rows: bool = False
    """Whether its thoughts read the rows of the screen aloud, as the family `read-aloud` does."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        """Agents that know the path of their query."""
        from trajmill.stages.agents.reference import ReferenceAgent

        return partial(ReferenceAgent, reads_rows=self.reads_rows)


def _given(model: AgentModel | None) -> AgentModel:
    if model is None:
        raise ValueError("this kind of agent asks a model")
    return model
