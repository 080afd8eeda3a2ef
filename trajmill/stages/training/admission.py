"""The gate that the files of a policy version pass before the version is stored, evaluated or inherited.

Names and shapes come from headers; values are read tensor by tensor, in pieces. No model is loaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open

from trajmill.schemas.errors import BadInputError

NOT_ADMITTED: Final = "not admitted: "
"""First words of the reason for a version that a check of its files, or of one scored prompt, refuses."""
ADAPTER_CONFIG: Final = "adapter_config.json"
_INDEX, _CONFIG = "model.safetensors.index.json", "config.json"
_PIECE = 1 << 24  # values that are read at once
_WRAPPERS = frozenset({"base_model", "model", "language_model"})
"""Parts of names that differ between a model in memory, in a file, and in its first publication."""
_LORA = {"lora_A": "lora_B", "lora_embedding_A": "lora_embedding_B"}
_TIED = frozenset({"lm_head.weight", "embed_tokens.weight"})

Shapes = Mapping[str, tuple[int, ...]]


def admit(folder: Path, base: Path | None) -> None:
    """Check the files of a version: a model in Hugging Face's layout, an embedded policy, or a LoRA adapter of PEFT's.

    `base` are the weights of its parent, which the adapter is for; None if only a server has them. Raises BadInputError
    if a shard is missing or broken, a name or a shape is not that of `base`, or a value is NaN or infinite.
    """
    shapes = _shapes(folder)
    known = None if base is None else _shapes(base)
    if (folder / ADAPTER_CONFIG).is_file():
        _check_adapter(folder, shapes, known)
    elif base is not None and known is not None:
        before, after = (_json(each / _CONFIG).get("model_type") for each in (base, folder))
        if before != after:
            raise _refused(folder, f"a model of type {after}; the policy is a {before}")
        _check_same(folder, shapes, known)
    for file in sorted(folder.glob("*.safetensors")):
        _check_values(file)


def _refused(place: Path, why: str) -> BadInputError:
    return BadInputError(f"{NOT_ADMITTED}{place}: {why}")


def _shapes(folder: Path) -> Shapes:
    """Return the shapes of all tensors, by names without wrappers where these differ; all shards must be whole."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise _refused(folder, "no weights in safetensors")
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(str(file), framework="pt") as tensors:
                found |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise _refused(file, f"broken weights ({error})") from error
    placed = _json(folder / _INDEX).get("weight_map", {}) if (folder / _INDEX).is_file() else {}
    missing = [shard for shard in sorted(set(placed.values())) if not (folder / shard).is_file()]
    if missing or (missing := sorted(placed.keys() - found.keys())):
        raise _refused(folder, f"{missing[0]} is missing, which {_INDEX} names")
    plain = {".".join(part for part in name.split(".") if part not in _WRAPPERS): found[name] for name in found}
    return plain if len(plain) == len(found) else found


def _json(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise _refused(file, f"no JSON object ({error})") from error


def _check_same(folder: Path, shapes: Shapes, known: Shapes) -> None:
    # A head that is tied to the embedding is stored by some trainers, and left out by others.
    tied = _TIED if _TIED & shapes.keys() and _TIED & known.keys() else frozenset()
    if lacking := sorted(known.keys() - shapes.keys() - tied):
        raise _refused(folder, f"{len(lacking)} tensors of the parent are missing, {lacking[0]} is the first")
    if strange := sorted(shapes.keys() - known.keys() - tied):
        raise _refused(folder, f"{len(strange)} tensors are none of the parent's, {strange[0]} is the first")
    for name in sorted(shapes.keys() & known.keys()):
        if shapes[name] != known[name]:
            raise _refused(folder, f"{name} has shape {list(shapes[name])}; the parent's has {list(known[name])}")


def _check_adapter(folder: Path, shapes: Shapes, known: Shapes | None) -> None:
    """Check that each pair of factors fits together and, where the base is known, its matrix there."""
    pairs = [(name, first) for name in sorted(shapes) for first in _LORA if f".{first}." in f".{name}."]
    if not pairs:
        raise _refused(folder, "no tensor of a LoRA adapter")
    for name, first in pairs:
        second = name.replace(first, _LORA[first])
        if second not in shapes:
            raise _refused(folder, f"{name} has no {_LORA[first]}")
        down, up = shapes[name], shapes[second]
        if down[0] != up[1]:
            raise _refused(folder, f"{name} has rank {down[0]}, and its {_LORA[first]} {up[1]}")
        if known is None:
            continue
        matrix = f"{name[: name.index(first)]}weight"
        if matrix not in known:
            raise _refused(folder, f"{name} adapts {matrix}, which the base has not")
        wanted = (up[0], *down[1:]) if first == "lora_A" else (down[1], up[0])
        if len(down) == 2 and wanted != known[matrix]:
            raise _refused(
                folder, f"{name} adapts a matrix of shape {list(wanted)}; the base's has {list(known[matrix])}"
            )


def _check_values(file: Path) -> None:
    with safe_open(str(file), framework="pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118
            piece = tensors.get_slice(name)
            shape = piece.get_shape()
            rows = max(1, _PIECE * shape[0] // max(1, math.prod(shape))) if shape else 1
            starts = range(0, shape[0], rows) if shape else ()
            parts = (piece[start : start + rows] for start in starts) if shape else [tensors.get_tensor(name)]
            if not all(bool(part.float().isfinite().all()) for part in parts):
                raise _refused(file, f"{name} has values that are NaN or infinite; lower the learning rate")
