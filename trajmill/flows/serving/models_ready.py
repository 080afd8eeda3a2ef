"""Makes sure that the models of a run answer before its first stage calls them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.serving.model_server import ModelServer, load_adapter, served
from trajmill.flows.serving.policy_servers import api_key, policy_server
from trajmill.flows.stage import RoundContext
from trajmill.pipelines.models import check_agent
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.views import refresh_views


@contextmanager
def models_ready(config: Config, logs: Path, names: Iterable[str] | None = None) -> Iterator[None]:
    """Start servers, load adapters and check names, so that the models answer inside.

    Without `names` of endpoints, those of all roles. Servers write their logs to the folder `logs`.

    Raises BadInputError (a server cannot be reached, does not have its model, or takes no adapter; a prompt file misses
    something; the folder of the agent's documents has none), TrajmillError (a server that trajmill starts does not get
    ready).
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
            if spec.adapter is not None:
                for address in spec.addresses:
                    load_adapter(address, spec.model, spec.adapter, api_key(spec))
        asyncio.run(check_servers(at_servers.values()))
        yield


async def check_servers(specs: Iterable[OpenAiSpec]) -> None:
    """Raise TrajmillError if a server does not answer or does not have its model."""
    for spec in specs:
        client = spec.connect(os.environ)
        try:
            await client.check()
        finally:
            await client.close()


@contextmanager
def working_on(context: RoundContext, models: Collection[str] | None = ()) -> Iterator[None]:
    """Work on a run alone, with endpoints ready (None: those of all roles); the views are up to date at the end.

    Raises RunInUseError: another process works on the run.
    """
    warehouse = context.warehouse
    with sole_worker(warehouse, context.run_id), disk_full_as_error(warehouse.root), ExitStack() as stack:
        if models is None or models:
            stack.enter_context(models_ready(context.config, warehouse.run(context.run_id), models))
        yield
    refresh_views(warehouse)
