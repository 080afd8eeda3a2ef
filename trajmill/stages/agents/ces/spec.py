"""The spec of CES."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.spec import EMBEDDED_ROLE, POLICY_MODEL, ActingRole, AgentSpec, given_model

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Query
    from trajmill.stages.agents.base import Agent, AgentMaker, AgentModel


class CesPrompts(Spec):
    """Prompt files of your own for the roles, in place of those that come with trajmill (see agents.md)."""

    coordinator: Path | None = None
    """For the atomic instruction."""
    state_tracker: Path | None = None
    """For the summary of what was done."""


class CesSpec(AgentSpec):
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
    max_tokens: PositiveInt = 512
    """Longest reply of the Executor in tokens."""
    role_tokens: PositiveInt = 1024
    """Longest reply of each other role in tokens."""
    prompts: CesPrompts = CesPrompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        """Make agents that share the models of their roles.

        Raises:
            BadInputError: a prompt file is wrong.
            ValueError: there is no model for the Executor.
        """
        from trajmill.stages.agents.ces.agent import CesAgent
        from trajmill.stages.agents.ces.embedded import embedded_coordinator, embedded_state_tracker
        from trajmill.stages.agents.roles.opening import acting_role, prompted_role, role_model

        given, package, files = given_model(model), "trajmill.stages.agents.ces", self.prompts
        coordinator = role_model(self, "coordinator", given, embedded_coordinator, self.role_tokens)
        tracker = role_model(self, "state_tracker", given, embedded_state_tracker, self.role_tokens)
        fields = {"instruction", "state"}
        instructs = prompted_role(coordinator, files.coordinator, package, "coordinator-1", fields)
        tracks = prompted_role(tracker, files.state_tracker, package, "state_tracker-1", fields | {"output"})

        def make(query: Query) -> Agent:
            executor = acting_role(given, "executor", query.platform, self.max_tokens, "executor")
            return CesAgent(executor, instructs, tracks, given.model.version)

        return make
