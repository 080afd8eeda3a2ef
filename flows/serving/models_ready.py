"""Sees to it that the models of a run answer before its first stage asks them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.models import EMBEDDED, EndpointSection
from trajmill.flows.configuration.prompts import prompts_of
from trajmill.flows.serving.lora import Adapter, load_adapter
from trajmill.flows.serving.model_server import ModelServer, served
from trajmill.pipelines.models import Endpoint
from trajmill.stages.models.openai_api.spec import OpenAiSpec


@contextmanager
def models_ready(config: Config, logs: Path, names: Iterable[str] | None = None) -> Iterator[None]:
    """Inside, the models answer: servers are started, adapters loaded, names checked.

    Args:
        config: where the endpoints stand.
        logs: folder for the logs of servers.
        names: endpoints that are needed; those that a role is mapped to if None.

    Raises:
        BadInputError: a server cannot be reached, does not know its model, or takes no adapter; a prompt
            file misses something.
        TrajmillError: a server that trajmill starts does not come up.
    """
    prompts_of(config)
    needed = names if names is not None else (name for _, name in config.asked_endpoints())
    used = {name: config.endpoints[name] for name in needed if name != EMBEDDED}
    with served([_server(name, endpoint) for name, endpoint in used.items() if endpoint.serve], logs):
        for endpoint in used.values():
            _load_adapter(endpoint)
        asyncio.run(_check([model_of(config, name) for name in used]))
        yield


def _server(name: str, endpoint: EndpointSection) -> ModelServer:
    assert endpoint.serve is not None
    model = endpoint.serve.model if endpoint.adapter else endpoint.model
    return ModelServer(name, model, endpoint.serve, _api_key(endpoint))


def _load_adapter(endpoint: EndpointSection) -> None:
    if endpoint.adapter is not None:
        for address in endpoint.addresses:
            load_adapter(address, Adapter(endpoint.model, endpoint.adapter), _api_key(endpoint))


def _api_key(endpoint: EndpointSection) -> str:
    return os.environ.get(endpoint.api_key_variable, "")


async def _check(endpoints: list[Endpoint]) -> None:
    for endpoint in endpoints:
        if isinstance(endpoint.spec, OpenAiSpec):
            client = endpoint.spec.connect(os.environ)
            try:
                await client.check()
            finally:
                await client.close()
