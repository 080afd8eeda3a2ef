"""Makes the servers of the policy's endpoint serve the version that acts next: its adapter, or its weights.

An adapter is loaded into the running servers. For whole weights, a server that trajmill started is restarted with them;
for any other server the stage waits until somebody has loaded them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from trajmill.flows.serving.model_server import ModelServer, ServerAnswer, load_adapter, served, served_models
from trajmill.flows.stage import AwaitedError
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.stages.models.openai_api.spec import OpenAiSpec


class RefusedPolicyError(BadInputError):
    """A policy version cannot act, because its server refuses it or does not serve it; the message says why."""


class PolicyServer:
    """The server that trajmill starts for the policy; it serves one set of weights at a time."""

    def __init__(self, endpoint: str, logs: Path) -> None:
        self._endpoint, self._logs = endpoint, logs
        self._running = ExitStack()
        self._weights = ""

    def serve(self, spec: OpenAiSpec, version: str, folder: Path | None, adapter: Path | None) -> None:
        """Serve the weights of a version, in place of others; the configured weights keep their configured name.

        Raises RefusedPolicyError (the server does not get ready with weights that are not the configured ones),
        TrajmillError (the port is taken, there is no such Python, or the server does not get ready).
        """
        assert spec.serve is not None
        known = spec.weights_folder
        weights = spec.serve.model or (str(known) if known is not None else spec.model)
        is_configured = folder is None or (known is not None and folder.resolve() == known.resolve())
        if is_configured:
            name = weights if spec.adapter is not None else spec.model
        else:
            weights = str(folder)
            name = version if adapter is None else Path(weights).name
        if weights == self._weights:
            return
        self.close()
        section = spec.serve.model_copy(update={"model": weights})
        try:
            self._running.enter_context(served([ModelServer(self._endpoint, name, section, api_key(spec))], self._logs))
        except TrajmillError as error:
            if is_configured:
                raise
            raise RefusedPolicyError(str(error)) from error
        self._weights = weights

    def close(self) -> None:
        self._weights = ""
        self._running.close()


_POLICY_SERVER: ContextVar[PolicyServer] = ContextVar("trajmill_policy_server")


@contextmanager
def policy_server(endpoint: str, logs: Path) -> Iterator[None]:
    """Let `serve_policy` start and replace the server of the policy's endpoint inside; stop it at the end."""
    server = PolicyServer(endpoint, logs)
    token = _POLICY_SERVER.set(server)
    try:
        yield
    finally:
        _POLICY_SERVER.reset(token)
        server.close()


def serve_policy(spec: OpenAiSpec, version: str, folder: Path | None, adapter: Path | None) -> None:
    """Make sure that all servers of the policy's endpoint serve a version, which is its model name in requests.

    `folder` has its weights, if not only the server has them, and `adapter` its LoRA adapter, if it has one.

    Raises RefusedPolicyError (a server refuses the adapter or the weights, or nobody has the weights of the version),
    AwaitedError (somebody has to load the weights into a server that trajmill did not start), TrajmillError (a server
    does not answer).
    """
    own = _POLICY_SERVER.get(None) if spec.serve is not None else None
    if own is not None:
        own.serve(spec, version, folder, adapter)
    for address in spec.addresses:
        models = served_models(address, api_key(spec))
        if isinstance(models, ServerAnswer):
            raise TrajmillError(f"the model server {address} does not answer ({models.reason})")
        if version in models:
            continue
        if adapter is not None:
            try:
                load_adapter(address, version, adapter, api_key(spec))
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


def api_key(spec: OpenAiSpec) -> str:
    """Return the key for the endpoint's servers; empty if there is none."""
    return os.environ.get(spec.api_key_variable, "")
