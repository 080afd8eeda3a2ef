"""Checks and identifies a model's folder in Hugging Face's layout."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from trajmill.schemas.errors import BadInputError

_DECIDING: Final = frozenset({".safetensors", ".json", ".jinja", ".txt", ".model"})
"""Suffixes of files that decide answers: weights, settings, chat template, vocabulary."""


def model_folder(folder: Path) -> Path:
    """The folder of a model, after checks that need no library.

    Raises:
        BadInputError: there is no such folder, or it has no safetensors weights. Pickled weights are never loaded,
            because they can run code.
    """
    if not (folder / "config.json").is_file():
        raise BadInputError(f"{folder}: no model folder in Hugging Face's layout (config.json is missing)")
    if not any(folder.glob("*.safetensors")):
        raise BadInputError(f"{folder}: no weights in safetensors; convert the model with its save_pretrained")
    return folder


def folder_version(folder: Path) -> str:
    """NAME-HASH of a model's folder: equal for equal files in any place. Reads all weights once."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(path for path in folder.iterdir() if path.suffix in _DECIDING and path.is_file()):
        with path.open("rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "blake2b").digest())
    return f"{folder.resolve().name}-{digest.hexdigest()}"
