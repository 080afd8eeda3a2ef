"""Gives vLLM's engine in this process a LoRA adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from trajmill.schemas.errors import BadInputError

_RANKS: Final = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks that vLLM has room for; an adapter takes the smallest that holds it."""


def adapter_arguments(adapter: Path | None) -> dict[str, Any]:
    """Engine arguments that make room for an adapter.

    Raises:
        BadInputError: the folder holds no adapter, or one of a rank that vLLM does not take.
    """
    if adapter is None:
        return {}
    file = adapter / "adapter_config.json"
    try:
        rank = json.loads(file.read_text())["r"]
    except OSError as error:
        raise BadInputError(f"{adapter} is no LoRA adapter: it has no {file.name}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{file}: it does not say the adapter's rank (r)") from error
    room = next((most for most in _RANKS if isinstance(rank, int) and 0 < rank <= most), None)
    if room is None:
        raise BadInputError(f"{file}: vLLM takes an adapter of rank 1 to {_RANKS[-1]}, not {rank}")
    return {"enable_lora": True, "max_lora_rank": room}


def adapter_request(adapter: Path | None) -> Any:
    """What names the adapter in each request to the engine; None without one."""
    if adapter is None:
        return None
    from vllm.lora.request import LoRARequest  # type: ignore[import-not-found]

    return LoRARequest(adapter.name, 1, str(adapter.absolute()))
