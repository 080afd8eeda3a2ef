"""Asks the frozen models about many replies at the same time, from a program that is not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import BadInputError, ModelFailure, TrainingFailedError
from trajmill.stages.training.base import ParentPolicy
from trajmill.stages.training.execution_feedback.chain import ExecutionChain, chain_of
from trajmill.stages.training.execution_feedback.spec import FeedbackRecipe
from trajmill.stages.training.execution_feedback.tasks import FeedbackTask


class TriedReply(NamedTuple):
    """A reply that is to be tried at a step."""

    task: FeedbackTask
    reply: str


class FrozenModels:
    """The frozen models of a training, in an event loop of their own."""

    def __init__(self, chain: ExecutionChain, runner: asyncio.Runner) -> None:
        self._chain = chain
        self._runner = runner

    def actions(self, tried: Sequence[TriedReply]) -> list[Action | None]:
        """The Executor's action on each reply; equal replies at one step are tried once.

        Raises:
            TrainingFailedError: a model did not answer. That is no action of the Executor, so it is never a reward.
        """
        distinct = list({(each.task.task_id, each.reply): each for each in tried}.items())
        try:
            made = self._runner.run(self._all([each for _, each in distinct]))
        except ModelFailure as error:
            raise TrainingFailedError(f"a frozen model did not answer, so no reward is known: {error}") from error
        by_reply = dict(zip((key for key, _ in distinct), made, strict=True))
        return [by_reply[each.task.task_id, each.reply] for each in tried]

    async def _all(self, tried: Sequence[TriedReply]) -> list[Action | None]:
        return await asyncio.gather(*(self._chain.action(each.task, each.reply) for each in tried))


@contextmanager
def frozen_models(recipe: FeedbackRecipe, parent: ParentPolicy, variables: Mapping[str, str]) -> Iterator[FrozenModels]:
    """The models of a recipe's roles, which are closed at the end.

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
