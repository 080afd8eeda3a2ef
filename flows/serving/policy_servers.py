"""Lets the servers of the policy's endpoint serve the version that is to act: its adapter, or its weights.

An adapter is loaded into the running servers. Whole weights need a server of their own name: the one that trajmill
started is stopped and started with them; somebody else's has to serve them already.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from trajmill.flows.serving.lora import Adapter, load_adapter, unload_adapter
from trajmill.flows.serving.model_server import ModelServer, served
from trajmill.flows.serving.server_requests import ServerAnswer, served_models
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.stages.models.openai_api.spec import OpenAiSpec


class RefusedPolicyError(BadInputError):
    """A policy version cannot act, because its server refuses it or does not have it; the text says why."""


class PolicyServer:
    """The server that trajmill runs for the policy; it serves one set of weights at a time."""

    def __init__(self, endpoint: str, logs: Path) -> None:
        """Start nothing yet.

        Args:
            endpoint: name of the policy's endpoint.
            logs: folder for the server's log.
        """
        self._endpoint, self._logs = endpoint, logs
        self._running = ExitStack()
        self._weights = ""

    def serve(self, spec: OpenAiSpec, name: str, weights: str) -> None:
        """Serve these weights under a name; a server with others is stopped first.

        Raises:
            BadInputError: the port is taken, or there is no such Python.
            TrajmillError: the server does not get ready with these weights.
        """
        assert spec.serve is not None
        if weights == self._weights:
            return
        self.close()
        section = spec.serve.model_copy(update={"model": weights})
        self._running.enter_context(served([ModelServer(self._endpoint, name, section, api_key(spec))], self._logs))
        self._weights = weights

    def close(self) -> None:
        """Stop the server, if it runs; closing twice is fine."""
        self._weights = ""
        self._running.close()


_POLICY_SERVER: ContextVar[PolicyServer] = ContextVar("trajmill_policy_server")


@contextmanager
def policy_server(endpoint: str, logs: Path) -> Iterator[None]:
    """Inside, `serve_policy` may start and exchange the server of the policy's endpoint; it is stopped at the end."""
    server = PolicyServer(endpoint, logs)
    token = _POLICY_SERVER.set(server)
    try:
        yield
    finally:
        _POLICY_SERVER.reset(token)
        server.close()


def serve_policy(spec: OpenAiSpec, version: str, folder: Path | None, adapter: Path | None) -> None:
    """Make sure that all servers of the policy's endpoint answer as a version.

    Args:
        spec: the endpoint, as it is configured.
        version: the name under which the version is asked.
        folder: of its weights, None where only the server knows them.
        adapter: of its LoRA adapter, None without one.

    Raises:
        RefusedPolicyError: a server refuses the adapter or the weights, or does not serve the version.
        TrajmillError: a server does not answer.
    """
    own = _POLICY_SERVER.get(None) if spec.serve is not None else None
    if own is not None:
        _start(own, spec, version, folder, adapter)
    for address in spec.addresses:
        models = served_models(address, api_key(spec))
        if isinstance(models, ServerAnswer):
            raise TrajmillError(f"the model server {address} does not answer ({models.reason})")
        if version in models:
            continue
        if adapter is None:
            what = version if folder is None else f"{version}, whose weights are in {folder}"
            raise RefusedPolicyError(f"the model server {address} does not serve {what}; it serves {_list(models)}")
        try:
            load_adapter(address, Adapter(version, adapter), api_key(spec))
        except BadInputError as error:
            raise RefusedPolicyError(str(error)) from error


def release_adapter(spec: OpenAiSpec, version: str) -> None:
    """Unload the adapter of a version that acts no longer; a server that cannot is left as it is."""
    for address in spec.addresses:
        with suppress(TrajmillError):
            unload_adapter(address, version, api_key(spec))


def api_key(spec: OpenAiSpec) -> str:
    """The key of an endpoint's servers, empty without one."""
    return os.environ.get(spec.api_key_variable, "")


def _start(own: PolicyServer, spec: OpenAiSpec, version: str, folder: Path | None, adapter: Path | None) -> None:
    """Serve the weights of a version, under the configured name where they are the configured ones."""
    assert spec.serve is not None
    configured = spec.serve.model or spec.model
    weights = configured if folder is None or folder == spec.weights_folder else str(folder)
    if weights == configured:
        name = spec.serve.model if spec.adapter is not None else spec.model
    else:
        name = version if adapter is None else Path(weights).name
    try:
        own.serve(spec, name, weights)
    except TrajmillError as error:
        if weights == configured:
            raise
        raise RefusedPolicyError(str(error)) from error


def _list(models: frozenset[str]) -> str:
    return ", ".join(sorted(models)) or "none"
