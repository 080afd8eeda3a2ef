"""Makes sure that the models of a run answer before its first stage calls them."""

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
from trajmill.pipelines.models import check_agent
from trajmill.stages.models.openai_api.spec import OpenAiSpec


@contextmanager
def models_ready(config: Config, logs: Path, names: Iterable[str] | None = None) -> Iterator[None]:
    """Start servers, load adapters and check names, so that the models answer inside.

    Args:
        config: has the endpoints.
        logs: folder for the logs of servers.
        names: the endpoints that are needed; None takes those of all roles.

    Raises:
        BadInputError: a server cannot be reached, does not have its model, or takes no adapter; a prompt
            file misses something; the folder of the agent's documents has none.
        TrajmillError: a server that trajmill starts does not get ready.
    """
    prompts_of(config)
    check_agent(config.agent)
    roles, policy = [name for _, name in config.asked_endpoints()], config.models.policy
    used = {name: config.endpoints[name] for name in (roles if names is None else names) if name != EMBEDDED}
    at_servers = {name: spec for name, spec in used.items() if isinstance(spec, OpenAiSpec)}
    # A policy without another role changes during a run; the stage in which it acts says which version is served.
    acts_only = names is None and roles.count(policy) == 1 and at_servers.pop(policy, None) is not None
    with ExitStack() as stack:
        servers = []
        for name, spec in at_servers.items():
            if spec.serve is not None:
                model = spec.serve.model if spec.adapter else spec.model
                servers.append(ModelServer(name, model, spec.serve, api_key(spec)))
        stack.enter_context(served(servers, logs))
        if acts_only:
            stack.enter_context(policy_server(policy, logs))
        for spec in at_servers.values():
            for address in spec.addresses if spec.adapter is not None else ():
                assert spec.adapter is not None
                load_adapter(address, Adapter(spec.model, spec.adapter), api_key(spec))
        asyncio.run(_check(at_servers.values()))
        yield


async def _check(specs: Iterable[OpenAiSpec]) -> None:
    for spec in specs:
        client = spec.connect(os.environ)
        try:
            await client.check()
        finally:
            await client.close()
