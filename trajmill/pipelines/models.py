"""Gives workers their models and agents: a spec describes each, and a worker opens it once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trajmill.schemas.dialects.families import ANY
from trajmill.stages.agents.base import AgentMaker, AgentModel
from trajmill.stages.agents.spec import AgentSpec
from trajmill.stages.models.spec import Endpoint, OpenEndpoints


def check_agent(spec: AgentSpec) -> None:
    """Read the files of the roles of an agent before any request. Raises BadInputError if one is wrong."""
    from trajmill.stages.agents.roles import EmbeddedRole

    if spec.roles():
        spec.open(AgentModel(EmbeddedRole("unused", lambda _: ""), ANY, temperature=0.0))


@dataclass(frozen=True)
class ActingAgent:
    spec: AgentSpec
    endpoint: Endpoint | None = None
    """Its model; None for an agent without a model."""
    temperature: float = 1.0
    with_tokens: bool = False
    roles: Mapping[str, Endpoint] = field(default_factory=dict)
    """The models of its further roles; a role of the spec that is missing here has none."""

    def identity(self) -> object:
        """Return everything that decides its steps; a path counts by its last name, a hash, the same everywhere."""
        fields, version, named = None, None, self.spec.roles()
        if self.endpoint is not None:
            paths = {name: value.name for name, value in self.endpoint.spec if isinstance(value, Path)}
            fields, version = {**self.endpoint.spec.model_dump(mode="json"), **paths}, self.endpoint.version
        roles = {role: self.roles[role].spec.identity() if role in self.roles else named[role] for role in named}
        return [self.spec.identity(), fields, version, self.temperature, self.with_tokens, *([roles] if roles else [])]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AgentMaker]:
        """Yield what makes the agent for a query. Raises BadInputError if a model or a file is not there."""
        if self.endpoint is None:
            yield self.spec.open(None)
            return
        async with OpenEndpoints() as endpoints:
            policy = endpoints.model(self.endpoint)
            roles = {role: endpoints.model(endpoint) for role, endpoint in self.roles.items()}
            family = self.endpoint.spec.vision_family
            families = {role: endpoint.spec.vision_family for role, endpoint in self.roles.items()}
            yield self.spec.open(AgentModel(policy, family, self.temperature, self.with_tokens, roles, families))
