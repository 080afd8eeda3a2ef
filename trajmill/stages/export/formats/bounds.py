"""Makes a trainer see the pictures that the targets were written for: pixel bounds of its processor, and checks."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.export.formats.trainers import SETTINGS_FILE

_PREPROCESSOR, _PROCESSOR = "preprocessor_config.json", "processor_config.json"
"""Where image settings are: at the top, or below `image_processor` (transformers 5)."""
_STATED: Final = re.compile(r"(?:.*[.\-+])?((?:image_)?(?:min|max)_pixels)", re.IGNORECASE)
"""An option, a key or a variable that states pixel bounds."""


def bounded_model(model: Path, budget: PixelBudget, folder: Path) -> Path:
    """Link the files of a model with an image processor that has the bounds; the model itself if it has none."""
    settings = [name for name in (_PREPROCESSOR, _PROCESSOR) if _image_settings(model / name) is not None]
    if budget.factor == 1 or not settings:
        return model
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in model.iterdir():
        if file.name not in settings:
            (folder / file.name).symlink_to(file.resolve())
    for name in settings:
        whole = json.loads((model / name).read_text())
        images = whole if name == _PREPROCESSOR else whole["image_processor"]
        images |= {
            "size": {"shortest_edge": budget.min_pixels, "longest_edge": budget.max_pixels},
            "min_pixels": budget.min_pixels,
            "max_pixels": budget.max_pixels,
        }
        (folder / name).write_text(json.dumps(whole, indent=2) + "\n")
    return folder


def bounds_as_variables(budget: PixelBudget) -> dict[str, str]:
    return {"MIN_PIXELS": str(budget.min_pixels), "MAX_PIXELS": str(budget.max_pixels)}


def check_stated_bounds(
    command: Sequence[str], variables: Mapping[str, str], release: Path, budget: PixelBudget
) -> None:
    """Raise BadInputError if a command states other bounds than those that the targets are written for."""
    settings = release / SETTINGS_FILE
    exported = yaml.safe_load(settings.read_text()) if settings.is_file() else {}
    wanted = {"min_pixels": budget.min_pixels, "max_pixels": budget.max_pixels, **exported}
    # The options of a command: `--name value`, `--name=value` or `name=value`.
    parts = [(*part.partition("="), following) for part, following in zip(command, [*command[1:], ""], strict=True)]
    options = [(name, value if found else following) for name, found, value, following in parts]
    for name, value in (*options, *variables.items()):
        stated = _STATED.fullmatch(name)
        key = stated[1].lower() if stated else ""
        if key in wanted and value.isdigit() and int(value) != wanted[key]:
            raise BadInputError(
                f"train.command: {name} is {value}, but the targets are written for pictures of {wanted[key]}: "
                "remove it, or change max_pixels of the endpoint"
            )


def check_trained_bounds(model: Path, budget: PixelBudget) -> None:
    """Raise TrainingFailedError if the trainer saved a processor with another upper bound."""
    for name in (_PREPROCESSOR, _PROCESSOR):
        images = _image_settings(model / name) or {}
        most = images.get("max_pixels") or (images.get("size") or {}).get("longest_edge")
        if isinstance(most, int) and most != budget.max_pixels:
            raise TrainingFailedError(
                f"the trainer's {name} takes pictures of up to {most} pixels, but the targets are written for "
                f"{budget.max_pixels}: name {{model}} in train.command, whose processor has these bounds"
            )


def _image_settings(file: Path) -> dict[str, Any] | None:
    try:
        whole = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    images = whole if file.name == _PREPROCESSOR else whole.get("image_processor")
    return images if isinstance(images, dict) else None
