"""Loads LoRA adapters into a running vLLM server, and unloads them.

The server must be started with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1; trajmill sets the variable for
servers that it starts with `--enable-lora`. The server reads the adapter's folder itself, so it needs access to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trajmill.flows.serving.server_requests import ServerAnswer, ask_server, served_models
from trajmill.schemas.errors import BadInputError, TrajmillError

_LOAD_SECONDS = 300.0


class Adapter(NamedTuple):
    """A LoRA adapter in PEFT's layout."""

    name: str
    """The model name in requests; each set of weights has its own."""
    folder: Path


def load_adapter(address: str, adapter: Adapter, api_key: str = "") -> None:
    """Load an adapter into the server at `address` (.../v1); loading it again is fine.

    Raises:
        BadInputError: the folder has no adapter, or the server does not take adapters.
        TrajmillError: the server does not answer.
    """
    if not (adapter.folder / "adapter_config.json").is_file():
        raise BadInputError(f"{adapter.folder} is no LoRA adapter: it has no adapter_config.json")
    body = {"lora_name": adapter.name, "lora_path": str(adapter.folder.absolute()), "load_inplace": True}
    answer = ask_server(f"{address}/load_lora_adapter", body, api_key, _LOAD_SECONDS)
    if answer.status != 200:
        raise _refusal(address, f"load the LoRA adapter {adapter.name}", answer)


def unload_adapter(address: str, name: str, api_key: str = "") -> None:
    """Remove an adapter from the server at `address`; running requests are finished.

    Raises:
        BadInputError: the server does not take adapters.
        TrajmillError: the server does not answer.
    """
    models = served_models(address, api_key)
    if not isinstance(models, ServerAnswer) and name not in models:
        return
    answer = ask_server(f"{address}/unload_lora_adapter", {"lora_name": name}, api_key)
    if answer.status != 200:
        raise _refusal(address, f"unload the LoRA adapter {name}", answer)


def _refusal(address: str, what: str, answer: ServerAnswer) -> TrajmillError:
    if answer.status == 0:
        return TrajmillError(f"the model server {address} does not answer ({answer.reason})")
    if answer.status in (404, 405) and "does not exist" not in answer.text:
        return BadInputError(
            f"the model server {address} cannot {what}: start it with --enable-lora and "
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
        )
    return BadInputError(f"the model server {address} did not {what}: {answer.reason}")
