"""Puts a LoRA adapter on a network, by peft."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.local.short_reason import short_reason

NEEDS_PEFT = "LoRA needs peft: pip install 'trajmill[train]'"


def with_adapter(network: Any, folder: Path, is_trainable: bool) -> Any:
    """The network with the adapter of a folder in PEFT's layout.

    Raises:
        BadInputError: peft is not installed, or the folder has no adapter of this network.
    """
    try:
        from peft import PeftModel
    except ImportError as error:
        raise BadInputError(NEEDS_PEFT) from error
    try:
        with warnings.catch_warnings():
            # peft reads an attribute that transformers has deprecated.
            warnings.simplefilter("ignore", FutureWarning)
            return PeftModel.from_pretrained(network, str(folder), is_trainable=is_trainable)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise BadInputError(f"{folder}: no adapter of this model: {short_reason(error)}") from error


def with_merged_adapter(network: Any, folder: Path) -> Any:
    """The network with the adapter added into its weights, so that it is as fast as without.

    Raises:
        BadInputError: peft is not installed, or the folder has no adapter of this network.
    """
    return with_adapter(network, folder, is_trainable=False).merge_and_unload()
