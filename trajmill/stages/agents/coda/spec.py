"""The spec of CODA's agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.spec import EMBEDDED_ROLE, POLICY_MODEL, ActingRole, AgentSpec, given_model

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Query
    from trajmill.stages.agents.base import Agent, AgentMaker, AgentModel


class CodaPrompts(Spec):
    """Prompt files of your own for the roles, in place of those that come with trajmill (see agents.md)."""

    planner: Path | None = None
    """For the thought of a step."""


class CodaSpec(AgentSpec):
    """Planner and Executor (paper CODA, 3.2)."""

    role_names: ClassVar[tuple[str, ...]] = ("executor", "planner")

    kind: Literal["coda"] = "coda"
    """Two roles: an Executor that acts, and a Planner that thinks for it."""
    executor: ActingRole = POLICY_MODEL
    """Acts: `policy` (`models.policy`), or the NAME of an `[endpoints.NAME]` where the policy has another role."""
    planner: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Writes the thought of each step: `embedded` (names the page and the task), the NAME of an `[endpoints.NAME]`,
    `policy`, or `off`."""
    max_tokens: PositiveInt = 512
    """Longest reply of the Executor in tokens."""
    role_tokens: PositiveInt = 1024
    """Longest thought of the Planner in tokens."""
    prompts: CodaPrompts = CodaPrompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        """Make agents that share the models of their roles.

        Raises:
            BadInputError: the prompt file is wrong.
            ValueError: there is no model for the Executor.
        """
        from trajmill.stages.agents.coda.agent import CodaAgent
        from trajmill.stages.agents.coda.embedded import embedded_planner
        from trajmill.stages.agents.roles.opening import acting_role, prompted_role, role_model

        given, package = given_model(model), "trajmill.stages.agents.coda"
        planner = role_model(self, "planner", given, embedded_planner, self.role_tokens)
        plans = prompted_role(planner, self.prompts.planner, package, "planner-1", {"instruction", "history"})

        def make(query: Query) -> Agent:
            executor = acting_role(given, "executor", query.platform, self.max_tokens, "executor")
            return CodaAgent(executor, plans, given.model.version)

        return make
