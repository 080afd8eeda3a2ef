"""How a model server that trajmill itself starts is run: `serve = {...}` of an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat

from trajmill.flows.configuration.section import Section


class ModelServerSection(Section):
    """A vLLM server on this machine, started before the rounds and stopped after them."""

    python: Path
    """Python of the environment that vLLM is installed in; vLLM and trajmill do not go into one environment."""
    model: str = ""
    """Folder of the weights, or their name on the Hugging Face hub; the endpoint's `model` if empty."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    """Local port. A server that is already there, healthy and with this model, is used and left running."""
    arguments: tuple[str, ...] = ()
    """Further arguments of `vllm serve`, one word each, e.g. `["--max-model-len", "32768"]`."""
    environment: dict[str, str] = {}
    """Environment variables of the server, beside those of trajmill itself."""
    ready_seconds: PositiveFloat = 600.0
    """Time that it may take to load its weights and be ready."""
