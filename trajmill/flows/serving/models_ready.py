"""Makes sure that the models of a run answer before its first stage calls them, and serves the version that acts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from pathlib import Path

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.serving.model_server import ModelServer, ServerAnswer, load_adapter, served, served_models
from trajmill.flows.stage import AwaitedError, RoundContext
from trajmill.pipelines.models import check_agent
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import sole_worker
from trajmill.warehouse.views import refresh_views


@contextmanager
def models_ready(config: Config, logs: Path, names: Iterable[str] | None = None) -> Iterator[None]:
    """Start servers, load adapters and check names of endpoints, of all roles without `names`.

    Raises BadInputError (a server is out of reach, lacks its model or takes no adapter; a file of prompts or of the
    agent is wrong), TrajmillError (a server that trajmill starts does not get ready).
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
                servers.append(ModelServer(name, model, spec.serve, spec.api_key(os.environ)))
        stack.enter_context(served(servers, logs))
        if acts_only:
            stack.enter_context(policy_server(policy, logs))
        for spec in at_servers.values():
            if spec.adapter is not None:
                for address in spec.addresses:
                    load_adapter(address, spec.model, spec.adapter, spec.api_key(os.environ))
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
def working_on(context: RoundContext, models: Collection[str] | None = (), patience: float = 0.0) -> Iterator[None]:
    """Work on a run alone, with endpoints (None: of all roles) ready, then refresh the views.

    Raises RunInUseError if another process works on the run for `patience` seconds.
    """
    warehouse = context.warehouse
    with sole_worker(warehouse, context.run_id, patience), disk_full_as_error(warehouse.root), ExitStack() as stack:
        if models is None or models:
            stack.enter_context(models_ready(context.config, warehouse.run(context.run_id), models))
        yield
    refresh_views(warehouse)


class RefusedPolicyError(BadInputError):
    """A policy version cannot act, because its server refuses it or does not serve it; the message says why."""


class PolicyServer:
    """The server that trajmill starts for the policy; it serves one set of weights at a time."""

    def __init__(self, endpoint: str, logs: Path) -> None:
        self._endpoint, self._logs, self._weights, self._running = endpoint, logs, "", ExitStack()

    def close(self) -> None:
        self._weights = ""
        self._running.close()

    def serve(self, spec: OpenAiSpec, version: str, folder: Path | None, adapter: Path | None) -> None:
        """Serve a version's weights in place of others. Raises RefusedPolicyError, TrajmillError (no start)."""
        assert spec.serve is not None
        known = spec.weights_folder
        weights = spec.serve.model or (str(known) if known is not None else spec.model)
        is_configured = folder is None or (known is not None and folder.resolve() == known.resolve())
        name = weights if spec.adapter is not None else spec.model
        if not is_configured:
            weights = str(folder)
            name = version if adapter is None else Path(weights).name
        if weights == self._weights:
            return
        self.close()
        section = spec.serve.model_copy(update={"model": weights})
        server = ModelServer(self._endpoint, name, section, spec.api_key(os.environ))
        try:
            self._running.enter_context(served([server], self._logs))
        except TrajmillError as error:
            if is_configured:
                raise
            raise RefusedPolicyError(str(error)) from error
        self._weights = weights


_POLICY_SERVER: ContextVar[PolicyServer] = ContextVar("trajmill_policy_server")


@contextmanager
def policy_server(endpoint: str, logs: Path) -> Iterator[None]:
    """Let `serve_policy` start and replace the server of the policy's endpoint inside; stop it at the end."""
    with closing(PolicyServer(endpoint, logs)) as server:
        token = _POLICY_SERVER.set(server)
        try:
            yield
        finally:
            _POLICY_SERVER.reset(token)


def serve_policy(spec: OpenAiSpec, version: str, folder: Path | None, adapter: Path | None) -> None:
    """Make all servers of the policy's endpoint serve a version by name: load its adapter, or restart with weights.

    Raises RefusedPolicyError (a server refuses it, or nobody has its weights), AwaitedError (somebody has to load the
    weights into a server that trajmill did not start), TrajmillError (a server does not answer).
    """
    own = _POLICY_SERVER.get(None) if spec.serve is not None else None
    if own is not None:
        own.serve(spec, version, folder, adapter)
    for address in spec.addresses:
        models = served_models(address, spec.api_key(os.environ))
        if isinstance(models, ServerAnswer):
            raise TrajmillError(f"the model server {address} does not answer ({models.reason}); start it")
        if version in models:
            continue
        if adapter is not None:
            try:
                load_adapter(address, version, adapter, spec.api_key(os.environ))
            except BadInputError as error:
                raise RefusedPolicyError(str(error)) from error
            continue
        missing = f"the model server {address} does not serve {version}, but {', '.join(sorted(models)) or 'none'}"
        if folder is None:
            raise RefusedPolicyError(missing)
        raise AwaitedError(
            f"awaiting a policy: {missing}; load {folder} into it under this name (vLLM: `vllm serve {folder} "
            f"--served-model-name {version}`), then run the same command again"
        )
