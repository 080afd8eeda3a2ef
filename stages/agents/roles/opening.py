"""Gives a role its model: that of its endpoint, or the embedded rules."""

from __future__ import annotations

from collections.abc import Callable

from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.roles.role_model import RoleModel
from trajmill.stages.agents.spec import OFF_ROLE, AgentSpec
from trajmill.stages.models.base import ChatModel


def role_model(
    spec: AgentSpec, role: str, given: AgentModel, embedded: Callable[[], ChatModel], max_tokens: int
) -> RoleModel | None:
    """The model behind a role; None if the role is off.

    Args:
        spec: of the agent, which has the role.
        role: its name.
        given: the models of the agent.
        embedded: makes the embedded rules, for a role without an endpoint.
        max_tokens: longest reply.
    """
    if spec.roles()[role] == OFF_ROLE:
        return None
    model = given.roles[role] if role in given.roles else embedded()
    return RoleModel(role, model, max_tokens)
