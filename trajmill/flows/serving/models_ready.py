"""Makes sure that the models of a run answer before its first stage asks them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.serving.model_server import ModelServer, served
from trajmill.flows.serving.policy_servers import api_key, policy_server
from trajmill.flows.serving.server_requests import Adapter, load_adapter
from trajmill.pipelines.agents import check_agent
from trajmill.stages.models.openai_api.spec import OpenAiSpec


@contextmanager
def models_ready(config: Config, logs: Path, names: Iterable[str] | None = None) -> Iterator[None]:
    """Start servers, load adapters and check names, so that the models answer inside.

    Args:
        config: has the endpoints.
        logs: folder for the logs of servers.
        names: the endpoints that are needed; None takes those of all roles.

    Raises:
        BadInputError: a server cannot be reached, does not know its model, or takes no adapter; a prompt
            file misses something; the folder of the agent's documents has none.
        TrajmillError: a server that trajmill starts does not get ready.
    """
    prompts_of(config)
    check_agent(config.agent)
    needed = names if names is not None else (name for _, name in config.asked_endpoints())
    used = {name: config.endpoints[name] for name in needed if name != EMBEDDED}
    at_servers = {name: spec for name, spec in used.items() if isinstance(spec, OpenAiSpec)}
    own_policy = _policy_of_its_own(config) if names is None else None
    of_policy = at_servers.pop(own_policy, None) if own_policy is not None else None
    with ExitStack() as stack:
        stack.enter_context(served([_server(name, spec) for name, spec in at_servers.items() if spec.serve], logs))
        if own_policy is not None and of_policy is not None:
            # It serves several versions during a run; the stage in which the policy acts says which one.
            stack.enter_context(policy_server(own_policy, logs))
        for spec in at_servers.values():
            _load_adapter(spec)
        asyncio.run(_check(at_servers.values()))
        yield


def _policy_of_its_own(config: Config) -> str | None:
    """The policy's endpoint, if it has no other role."""
    policy = config.models.policy
    roles = [name for _, name in config.asked_endpoints()]
    return policy if roles.count(policy) == 1 else None


def _server(name: str, endpoint: OpenAiSpec) -> ModelServer:
    assert endpoint.serve is not None
    model = endpoint.serve.model if endpoint.adapter else endpoint.model
    return ModelServer(name, model, endpoint.serve, api_key(endpoint))


def _load_adapter(endpoint: OpenAiSpec) -> None:
    if endpoint.adapter is not None:
        for address in endpoint.addresses:
            load_adapter(address, Adapter(endpoint.model, endpoint.adapter), api_key(endpoint))


async def _check(specs: Iterable[OpenAiSpec]) -> None:
    for spec in specs:
        client = spec.connect(os.environ)
        try:
            await client.check()
        finally:
            await client.close()
