"""Describes the agent of a stage, which the workers open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trajmill.pipelines.models import Endpoint
from trajmill.schemas.dialects.families import ANY
from trajmill.stages.agents.base import AgentMaker, AgentModel
from trajmill.stages.agents.spec import AgentSpec
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.spec import ModelSpec


def check_agent(spec: AgentSpec) -> None:
    """Read the files that the roles of an agent need, so that a mistake in them ends a run before anything is asked.

    Raises:
        BadInputError: a prompt or the folder of documents is wrong.
    """
    from trajmill.stages.agents.roles import EmbeddedRole

    if spec.roles():
        spec.open(AgentModel(EmbeddedRole("unused", lambda _: ""), ANY, temperature=0.0))


@dataclass(frozen=True)
class ActingAgent:
    """Which agent acts, and with which model."""

    spec: AgentSpec
    endpoint: Endpoint | None = None
    """Its model; None for an agent without a model."""
    temperature: float = 1.0
    with_tokens: bool = False
    """Whether the tokens of the model's replies are asked for."""
    roles: Mapping[str, Endpoint] = field(default_factory=dict)
    """The models of its further roles; a role of the spec that is missing here has none."""

    def identity(self) -> object:
        """Everything that decides its steps; the weights of its model by the name of their folder, which is a hash."""
        model_fields = self.endpoint and _without_places(self.endpoint.spec)
        version = self.endpoint and self.endpoint.version
        named = self.spec.roles()
        roles = {role: self.roles[role].spec.identity() if role in self.roles else named[role] for role in named}
        asked = [roles] if roles else []
        return [self.spec.identity(), model_fields, version, self.temperature, self.with_tokens, *asked]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AgentMaker]:
        """Give a function that makes the agent for a query; all agents share the models, which are closed at the end.

        Raises:
            BadInputError: a model cannot be connected, or the agent lacks a file.
        """
        if self.endpoint is None:
            yield self.spec.open(None)
            return
        async with AsyncExitStack() as closing:

            def connected(endpoint: Endpoint) -> ChatModel:
                model = endpoint.connect()
                closing.push_async_callback(model.close)
                return model

            policy = connected(self.endpoint)
            roles = {role: connected(endpoint) for role, endpoint in self.roles.items()}
            family = self.endpoint.spec.vision_family
            families = {role: endpoint.spec.vision_family for role, endpoint in self.roles.items()}
            yield self.spec.open(AgentModel(policy, family, self.temperature, self.with_tokens, roles, families))


def _without_places(spec: ModelSpec) -> dict[str, object]:
    """The fields of a spec, a path by its last name, so that they are the same wherever a bucket is worked on."""
    paths = {name: value.name for name, value in spec if isinstance(value, Path)}
    return {**spec.model_dump(mode="json"), **paths}
