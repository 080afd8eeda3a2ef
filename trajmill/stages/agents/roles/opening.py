"""Gives a role its model: that of its endpoint, or the embedded rules."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.roles.role_model import PromptedRole, RoleModel
from trajmill.stages.agents.spec import OFF_ROLE, POLICY_MODEL, AgentSpec
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
    named = spec.roles()[role]
    if named == OFF_ROLE:
        return None
    if named == POLICY_MODEL:
        return RoleModel(role, given.model, max_tokens)
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


def acting_role(given: AgentModel, role: str, platform: Platform, max_tokens: int, key: str = "") -> EndToEndAgent:
    """The role that acts, asked in the layout of its model's family.

    Args:
        given: the models of the agent.
        role: its name.
        platform: where it acts.
        max_tokens: longest reply.
        key: the field of the spec that names its endpoint; the policy acts where there is none.
    """
    if key in given.roles:
        return EndToEndAgent(
            given.roles[key],
            platform,
            given.temperature,
            role=role,
            family=given.families.get(key, ANY),
            max_tokens=max_tokens,
        )
    return EndToEndAgent(
        given.model,
        platform,
        given.temperature,
        role=role,
        family=given.family,
        with_tokens=given.with_tokens,
        max_tokens=max_tokens,
    )
