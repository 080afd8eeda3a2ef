"""What a frozen Executor does on the words of a role: the paper's own agent, in which that role says a given text.

So a reply is tried exactly as it would be used in an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trajmill.schemas.actions import Action
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.ces.agent import INSTRUCTION, CesAgent
from trajmill.stages.agents.coda.agent import CodaAgent
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.roles import EmbeddedRole, Role
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import load_prompt
from trajmill.stages.training.execution_feedback.spec import CesStage2Spec, CodaSpecialistSpec, FeedbackRecipe
from trajmill.stages.training.execution_feedback.tasks import FeedbackTask

_CES, _CODA = "trajmill.stages.agents.ces", "trajmill.stages.agents.coda"
_BEFORE = Decision("", None, "", role_outputs={INSTRUCTION: "Go on."})
"""A step before the present one, so that the State Tracker has something to sum up."""


@dataclass(frozen=True)
class ExecutionChain:
    """The frozen models that a reply is tried with."""

    recipe: FeedbackRecipe
    models: Mapping[str, ChatModel]
    """By role: `executor`, and for a State Tracker `coordinator`."""
    family: Family
    """The Executor's."""

    async def action(self, task: FeedbackTask, reply: str) -> Action | None:
        """The Executor's greedy action on a reply; None if the reply is malformed or the Executor's holds no action.

        A malformed reply earns nothing, whatever the other roles make of the step without it.

        Raises:
            ModelFailure: a frozen model did not answer.
        """
        decision = await self._agent(task.platform, reply).act(self._view(task))
        if any(call.malformed and call.request.role == self.recipe.role for call in decision.calls):
            return None
        return decision.action

    def _agent(self, platform: Platform, reply: str) -> Agent:
        recipe, said = self.recipe, EmbeddedRole("candidate", lambda _: reply)
        executor = EndToEndAgent(
            self.models["executor"],
            platform,
            temperature=0.0,
            role="executor",
            family=self.family,
            max_tokens=recipe.executor_tokens,
        )
        if isinstance(recipe, CodaSpecialistSpec):
            return CodaAgent(executor, _role("planner", said, _CODA))
        if isinstance(recipe, CesStage2Spec):
            frozen, tokens = self.models["coordinator"], recipe.coordinator_tokens
            asked = _role("coordinator", frozen, _CES, tokens)
            return CesAgent(executor, asked, _role("state_tracker", said, _CES))
        return CesAgent(executor, _role("coordinator", said, _CES), None)

    def _view(self, task: FeedbackTask) -> EpisodeView:
        seen = [Observation(screen, None, "") for screen in task.screens]
        if isinstance(self.recipe, CodaSpecialistSpec):
            # The Executor is shown what the Planner is: the screen before, and the present one (CODA 3.2).
            past = tuple(Decision("", None, conclusion, raw_response=reply) for reply, conclusion in task.past)
            return EpisodeView(task.instruction, None, seen[-1], past, 0, tuple(seen[:1] * len(past)))
        before = (_BEFORE,) if isinstance(self.recipe, CesStage2Spec) else ()
        return EpisodeView(task.instruction, None, seen[-1], before, 0)


def chain_of(recipe: FeedbackRecipe, models: Mapping[str, ChatModel], family: Family) -> ExecutionChain:
    """The chain of a recipe, whose Executor is shown at most one past screen."""
    return ExecutionChain(recipe, models, family._replace(past_screens=min(family.past_screens, 1)))


def _role(role: str, model: ChatModel, package: str, max_tokens: int = 1024) -> Role:
    return Role(role, model, load_prompt(package, f"{role}-1"), max_tokens=max_tokens)
