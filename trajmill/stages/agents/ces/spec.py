"""The spec of CES."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.spec import EMBEDDED_ROLE, POLICY_MODEL, ActingRole, RolesSpec, given_model

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Query
    from trajmill.stages.agents.base import Agent, AgentMaker, AgentModel


class CesPrompts(Spec):
    """Prompt files of your own for the roles, in place of those that come with trajmill (see agents.md)."""

    coordinator: Path | None = None
    """For the atomic instruction."""
    state_tracker: Path | None = None
    """For the summary of what was done."""


class CesSpec(RolesSpec):
    """Coordinator, frozen Executor and State Tracker (paper CES, 4.2)."""

    role_names: ClassVar[tuple[str, ...]] = ("executor", "coordinator", "state_tracker")

    kind: Literal["ces"] = "ces"
    """Three roles: an Executor that acts, and two that tell it what to do."""
    executor: ActingRole = POLICY_MODEL
    """Acts: `policy` (`models.policy`), or the NAME of an `[endpoints.NAME]` where the policy has another role."""
    coordinator: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Instructs: `embedded` (hands the task on), the NAME of an `[endpoints.NAME]`, `policy`, or `off`."""
    state_tracker: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Sums up what was done: `embedded`, the NAME of an `[endpoints.NAME]`, `policy`, or `off`. Its model needs no
    images."""
    prompts: CesPrompts = CesPrompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        from trajmill.stages.agents.ces.agent import CesAgent, embedded_coordinator, embedded_state_tracker
        from trajmill.stages.agents.roles import RoleOpener

        given, files = given_model(model), self.prompts
        opener = RoleOpener(self, given, "trajmill.stages.agents.ces")
        coordinator = opener.role("coordinator", embedded_coordinator, "coordinator-1", files.coordinator)
        tracker = opener.role("state_tracker", embedded_state_tracker, "state_tracker-1", files.state_tracker)

        def make(query: Query) -> Agent:
            executor = opener.acting("executor", query.platform, "executor")
            return CesAgent(executor, coordinator, tracker, given.model.version)

        return make
