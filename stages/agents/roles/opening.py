"""Gives a role its model: that of its endpoint, or the embedded rules."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.roles.role_model import PromptedRole, RoleModel
from trajmill.stages.agents.spec import OFF_ROLE, AgentSpec
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import own_or_packaged


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


def prompted_role(
    role: RoleModel | None, own: Path | None, package: str, name: str, fields: Collection[str]
) -> PromptedRole | None:
    """A role with the user's prompt, or that of the package; None if the role is off.

    Raises:
        BadInputError: the prompt file cannot be read, or misses a section or a field.
    """
    return None if role is None else PromptedRole(role, own_or_packaged(own, package, name, frozenset(fields)))


def acting_role(given: AgentModel, role: str, platform: Platform, max_tokens: int) -> EndToEndAgent:
    """The role that acts: the agents' own model, asked in the layout of its family."""
    return EndToEndAgent(
        given.model,
        platform,
        given.temperature,
        role=role,
        family=given.family,
        with_tokens=given.with_tokens,
        max_tokens=max_tokens,
    )
