"""The spec of Mobile-Agent-v3."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.agents.spec import EMBEDDED_ROLE, OFF_ROLE, AgentSpec, given_model

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


class MobileAgentV3Spec(AgentSpec):
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
    max_tokens: PositiveInt = 512
    """Longest reply of the Worker in tokens."""
    role_tokens: PositiveInt = 1024
    """Longest reply of each other role in tokens."""
    prompts: MobileAgentV3Prompts = MobileAgentV3Prompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        """Make agents that share the models of their roles, and the index of the documents.

        Raises:
            BadInputError: the folder has no document with text, a prompt file is wrong, or the retriever's model embeds
                no texts.
            ValueError: there is no model for the Worker.
        """
        from trajmill.stages.agents.mobile_agent_v3 import embedded
        from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3
        from trajmill.stages.agents.mobile_agent_v3.manager import open_manager
        from trajmill.stages.agents.mobile_agent_v3.notetaker import open_notetaker
        from trajmill.stages.agents.mobile_agent_v3.reflector import open_reflector
        from trajmill.stages.agents.roles.opening import acting_role, role_model

        given, files = given_model(model), self.prompts
        role = partial(role_model, self, given=given, max_tokens=self.role_tokens)
        plans = role("manager", embedded=embedded.embedded_manager)
        reflects = role("reflector", embedded=embedded.embedded_reflector)
        notes = role("notetaker", embedded=embedded.embedded_notetaker)
        manager = open_manager(plans, files.manager_plan, files.manager_update) if plans else None
        reflector = open_reflector(reflects, files.reflector) if reflects else None
        notetaker = open_notetaker(notes, files.notetaker) if notes else None
        retrieve = self._retriever(given)

        def make(query: Query) -> Agent:
            worker = acting_role(given, "worker", query.platform, self.max_tokens)
            return MobileAgentV3(worker, manager, reflector, notetaker, retrieve)

        return make

    def _retriever(self, given: AgentModel) -> Retriever | None:
        if self.knowledge is None or self.retriever == OFF_ROLE:
            return None
        from trajmill.stages.agents.knowledge.documents import KeywordIndex, read_passages

        passages = read_passages(self.knowledge)
        if "retriever" not in given.roles:
            return partial(KeywordIndex(passages).retrieve, most=self.knowledge_passages)
        from trajmill.stages.agents.knowledge.meanings import MeaningIndex
        from trajmill.stages.models.embedding import embedding_model

        index = MeaningIndex(passages, embedding_model(given.roles["retriever"]))
        return partial(index.retrieve, most=self.knowledge_passages)
