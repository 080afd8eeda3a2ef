"""Repairs the texts of a decision, because a model may write characters that no row can store."""

from __future__ import annotations

from dataclasses import replace

from trajmill.schemas.actions import Action, Answer, OpenApp, PressKeys, TypeText
from trajmill.schemas.storable import storable
from trajmill.stages.agents.base import Decision


def storable_decision(decision: Decision) -> Decision:
    """The decision with storable texts; the environment and the agent's history get only these.

    Its model calls are not changed, because their texts are repaired when their rows are made.
    """
    return replace(
        decision,
        thought=storable(decision.thought),
        action=None if decision.action is None else _action(decision.action),
        conclusion=storable(decision.conclusion),
        raw_response=storable(decision.raw_response),
        prompt=storable(decision.prompt),
        role_outputs={storable(role): storable(text) for role, text in decision.role_outputs.items()},
    )


def _action(action: Action) -> Action:
    match action:
        case TypeText(text=text) | Answer(text=text):
            return action.model_copy(update={"text": storable(text)})
        case OpenApp(app=app):
            return action.model_copy(update={"app": storable(app)})
        case PressKeys(keys=keys):
            return action.model_copy(update={"keys": tuple(map(storable, keys))})
        case _:
            return action
