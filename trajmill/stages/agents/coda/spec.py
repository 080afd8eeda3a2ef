"""The spec of CODA's agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.spec import EMBEDDED_ROLE, POLICY_MODEL, ActingRole, RolesSpec, given_model

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Query
    from trajmill.stages.agents.base import Agent, AgentMaker, AgentModel


class CodaPrompts(Spec):
    """Prompt files of your own for the roles, in place of those that come with trajmill (see agents.md)."""

    planner: Path | None = None
    """For the thought of a step."""


class CodaSpec(RolesSpec):
    """Planner and Executor (paper CODA, 3.2)."""

    role_names: ClassVar[tuple[str, ...]] = ("executor", "planner")

    kind: Literal["coda"] = "coda"
    """Two roles: an Executor that acts, and a Planner that thinks for it."""
    executor: ActingRole = POLICY_MODEL
    """Acts: `policy` (`models.policy`), or the NAME of an `[endpoints.NAME]` where the policy has another role."""
    planner: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Writes the thought of each step: `embedded` (names the page and the task), the NAME of an `[endpoints.NAME]`,
    `policy`, or `off`."""
    prompts: CodaPrompts = CodaPrompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        from trajmill.stages.agents.coda.agent import CodaAgent, embedded_planner
        from trajmill.stages.agents.roles import RoleOpener

        given, own = given_model(model), self.prompts.planner
        opener = RoleOpener(self, given, "trajmill.stages.agents.coda")
        planner = opener.role("planner", embedded_planner, "planner-1", own)

        def make(query: Query) -> Agent:
            executor = opener.acting("executor", query.platform, "executor")
            return CodaAgent(executor, planner, given.model.version)

        return make
