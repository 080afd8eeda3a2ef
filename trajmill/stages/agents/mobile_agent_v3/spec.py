"""The spec of Mobile-Agent-v3."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.spec import EMBEDDED_ROLE, OFF_ROLE, RolesSpec, given_model

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Query
    from trajmill.stages.agents.base import Agent, AgentMaker, AgentModel
    from trajmill.stages.agents.mobile_agent_v3.agent import Retriever


class MobileAgentV3Prompts(Spec):
    """Prompt files of your own for the roles, in place of those that come with trajmill (see agents.md)."""

    manager_plan: Path | None = None
    """For the first plan."""
    manager_update: Path | None = None
    """For the plan after an action."""
    reflector: Path | None = None
    """For the outcome of an action."""
    notetaker: Path | None = None
    """For the notes of a screen."""


class MobileAgentV3Spec(RolesSpec):
    """Manager, Worker, Reflector and Notetaker (paper Mobile-Agent-v3, 4 and 7); `models.policy` is the Worker."""

    role_names: ClassVar[tuple[str, ...]] = ("manager", "reflector", "notetaker", "retriever")

    kind: Literal["mobile_agent_v3"] = "mobile_agent_v3"
    """Four roles: the policy acts as the Worker."""
    manager: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Plans: `embedded` (simple rules on the screen), the NAME of an `[endpoints.NAME]`, or `off`."""
    reflector: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Says whether an action succeeded: `embedded`, the NAME of an `[endpoints.NAME]`, or `off`."""
    notetaker: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Notes what a later screen needs: `embedded`, the NAME of an `[endpoints.NAME]`, or `off`."""
    knowledge: Path | None = None
    """Folder of documents (`.md`, `.txt`) in which the Manager finds knowledge about a task."""
    retriever: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Finds it: `embedded` (BM25), the NAME of an `[endpoints.NAME]` whose model embeds texts, or `off`."""
    knowledge_passages: PositiveInt = 3
    """Most passages that the Manager is given."""
    prompts: MobileAgentV3Prompts = MobileAgentV3Prompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        from trajmill.stages.agents.mobile_agent_v3 import embedded
        from trajmill.stages.agents.mobile_agent_v3.agent import ManagerRoles, MobileAgentV3
        from trajmill.stages.agents.roles import RoleOpener

        given, files = given_model(model), self.prompts
        opener = RoleOpener(self, given, "trajmill.stages.agents.mobile_agent_v3")
        plans = opener.role("manager", embedded.embedded_manager, "manager_plan-1", files.manager_plan)
        revises = opener.role("manager", embedded.embedded_manager, "manager_update-1", files.manager_update)
        manager = ManagerRoles(plans, revises) if plans and revises else None
        reflector = opener.role("reflector", embedded.embedded_reflector, "reflector-1", files.reflector)
        notetaker = opener.role("notetaker", embedded.embedded_notetaker, "notetaker-1", files.notetaker)
        retrieve = self._retriever(given)

        def make(query: Query) -> Agent:
            return MobileAgentV3(opener.acting("worker", query.platform), manager, reflector, notetaker, retrieve)

        return make

    def _retriever(self, given: AgentModel) -> Retriever | None:
        if self.knowledge is None or self.retriever == OFF_ROLE:
            return None
        from trajmill.stages.agents.knowledge import KeywordIndex, MeaningIndex, read_passages

        passages = read_passages(self.knowledge)
        if "retriever" not in given.roles:
            return partial(KeywordIndex(passages).retrieve, most=self.knowledge_passages)
        from trajmill.stages.models.wrapped import embedding_model

        index = MeaningIndex(passages, embedding_model(given.roles["retriever"]))
        return partial(index.retrieve, most=self.knowledge_passages)
