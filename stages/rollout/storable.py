"""A decision made fit to be stored and acted on: a model may say anything, and no row may break on it."""

from __future__ import annotations

from dataclasses import replace

from schemas.actions import Action, Answer, OpenApp, PressKeys, TypeText
from schemas.storable import storable
from stages.agents.base import AgentCall, Decision
from stages.models.base import ChatMessage


def storable_decision(decision: Decision) -> Decision:
    """The decision with all of its texts storable; the environment and the agent's history see no other."""
    return replace(
        decision,
        thought=storable(decision.thought),
        action=None if decision.action is None else _action(decision.action),
        conclusion=storable(decision.conclusion),
        raw_response=storable(decision.raw_response),
        prompt=storable(decision.prompt),
        role_outputs={storable(role): storable(text) for role, text in decision.role_outputs.items()},
        calls=tuple(_call(call) for call in decision.calls),
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


def _call(call: AgentCall) -> AgentCall:
    completion = call.completion
    messages = tuple(_message(message) for message in call.request.messages)
    return AgentCall(
        request=replace(call.request, messages=messages),
        completion=None if completion is None else completion._replace(text=storable(completion.text)),
        latency_ms=call.latency_ms,
        error=None if call.error is None else storable(call.error),
    )


def _message(message: ChatMessage) -> ChatMessage:
    parts = tuple(storable(part) if isinstance(part, str) else part for part in message.parts)
    return ChatMessage(storable(message.role), parts)
