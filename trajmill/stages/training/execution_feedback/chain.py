"""Tries replies of a role with frozen models: the paper's own agent, in which that role's reply is given.

So a reply is tried exactly as it would be used in an episode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trajmill.schemas.actions import Action
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.errors import BadInputError, ModelFailure, TrainingFailedError
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.ces.agent import INSTRUCTION, CesAgent
from trajmill.stages.agents.coda.agent import CodaAgent
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.roles import EmbeddedRole, Role
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import load_prompt
from trajmill.stages.training.base import ParentPolicy
from trajmill.stages.training.execution_feedback.spec import CesStage2Spec, CodaSpecialistSpec, FeedbackRecipe
from trajmill.stages.training.execution_feedback.tasks import FeedbackTask

_CES, _CODA = "trajmill.stages.agents.ces", "trajmill.stages.agents.coda"
_BEFORE = Decision("", None, "", role_outputs={INSTRUCTION: "Go on."})
"""A step before the present one, which the State Tracker sums up."""


@dataclass(frozen=True)
class ExecutionChain:
    """The frozen models that a reply is tried with."""

    recipe: FeedbackRecipe
    models: Mapping[str, ChatModel]
    """By role: `executor`, and for a State Tracker `coordinator`."""
    family: Family
    """The Executor's."""

    async def action(self, task: FeedbackTask, reply: str) -> Action | None:
        """Return the Executor's greedy action on a reply; None if the reply is malformed or gives no action.

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
        model, tokens = self.models["executor"], recipe.executor_tokens
        executor = EndToEndAgent(
            model, platform, temperature=0.0, role="executor", family=self.family, max_tokens=tokens
        )
        if isinstance(recipe, CodaSpecialistSpec):
            return CodaAgent(executor, _role("planner", said, _CODA))
        if isinstance(recipe, CesStage2Spec):
            frozen = _role("coordinator", self.models["coordinator"], _CES, recipe.coordinator_tokens)
            return CesAgent(executor, frozen, _role("state_tracker", said, _CES))
        return CesAgent(executor, _role("coordinator", said, _CES), None)

    def _view(self, task: FeedbackTask) -> EpisodeView:
        seen = [Observation(screen, None, "") for screen in task.screens]
        if isinstance(self.recipe, CodaSpecialistSpec):
            # The Executor is shown the Planner's screens: the one before, and the present one (CODA 3.2).
            past = tuple(Decision("", None, conclusion, raw_response=reply) for reply, conclusion in task.past)
            return EpisodeView(task.instruction, None, seen[-1], past, 0, tuple(seen[:1] * len(past)))
        before = (_BEFORE,) if isinstance(self.recipe, CesStage2Spec) else ()
        return EpisodeView(task.instruction, None, seen[-1], before, 0)


def chain_of(recipe: FeedbackRecipe, models: Mapping[str, ChatModel], family: Family) -> ExecutionChain:
    """Return the chain of a recipe, whose Executor is shown at most one past screen."""
    return ExecutionChain(recipe, models, family._replace(past_screens=min(family.past_screens, 1)))


def _role(role: str, model: ChatModel, package: str, max_tokens: int = 1024) -> Role:
    return Role(role, model, load_prompt(package, f"{role}-1"), max_tokens=max_tokens)


@dataclass(frozen=True)
class FrozenModels:
    """The frozen models of a training, in an event loop of their own: the trainer is not asynchronous."""

    chain: ExecutionChain
    runner: asyncio.Runner

    def actions(self, tried: Sequence[tuple[FeedbackTask, str]]) -> list[Action | None]:
        """Return the Executor's action on each reply to a task; equal replies at one step are tried once.

        Raises:
            TrainingFailedError: a model did not answer. That is no action of the Executor, so it is never a reward.
        """
        distinct = {(task.task_id, reply): task for task, reply in tried}

        async def made() -> list[Action | None]:
            return await asyncio.gather(*(self.chain.action(task, reply) for (_, reply), task in distinct.items()))

        try:
            by_reply = dict(zip(distinct, self.runner.run(made()), strict=True))
        except ModelFailure as error:
            raise TrainingFailedError(f"a frozen model did not answer, so no reward is known: {error}") from error
        return [by_reply[task.task_id, reply] for task, reply in tried]


@contextmanager
def frozen_models(recipe: FeedbackRecipe, parent: ParentPolicy, variables: Mapping[str, str]) -> Iterator[FrozenModels]:
    """Connect the models of a recipe's roles, and close them at the end.

    Args:
        recipe: names the roles.
        parent: has the descriptions of the models.
        variables: environment variables with the keys of servers.

    Raises:
        BadInputError: a role has no model, or its model cannot be connected or loaded.
    """
    missing = [role for role in recipe.role_names if role not in parent.frozen]
    if missing:
        raise BadInputError(f"train.{missing[0]} is missing: the NAME of the [endpoints.NAME] of the frozen model")
    models = {role: parent.frozen[role].connect(variables) for role in recipe.role_names}
    with asyncio.Runner() as runner:
        try:
            yield FrozenModels(chain_of(recipe, models, parent.frozen["executor"].vision_family), runner)
        finally:
            for model in models.values():
                runner.run(model.close())
