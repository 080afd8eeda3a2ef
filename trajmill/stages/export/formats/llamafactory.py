"""Supervised rows for LLaMA-Factory: JSON lines in its sharegpt form, and the files that describe them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from trajmill.schemas.coordinates import QWEN3_VL
from trajmill.schemas.dialects.families import Family
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.shards import DATA_FOLDER
from trajmill.stages.export.formats.steps import StepExample
from trajmill.stages.export.messages import in_one_prompt, in_strings

DATASET: Final = "trajmill"
"""Name of the dataset in `dataset_info.json`."""
SETTINGS_FILE: Final = "llamafactory.yaml"
_NEVER_ENLARGED: Final = 1
"""The smallest number of pixels of an image that LLaMA-Factory does not enlarge."""
_INFO = {
    DATASET: {
        "file_name": DATA_FOLDER,
        "formatting": "sharegpt",
        "columns": {"messages": "messages", "images": "images"},
        "tags": {
            "role_tag": "role",
            "content_tag": "content",
            "user_tag": "user",
            "assistant_tag": "assistant",
            "system_tag": "system",
        },
    }
}


class LlamaFactoryFormat(TrainerFormat):
    """Supervised rows for LLaMA-Factory."""

    kind: Literal["llamafactory"] = "llamafactory"
    """Messages in the sharegpt form."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        return {"messages": in_strings(in_one_prompt(example.messages))}

    def write_settings(self, folder: Path, settings: TrainerSettings) -> None:
        (folder / "dataset_info.json").write_text(json.dumps(_INFO, indent=1) + "\n", encoding="utf-8")
        needed = {
            "stage": "sft",
            "dataset_dir": ".",
            "dataset": DATASET,
            "template": _template(settings.family),
            "cutoff_len": settings.max_length,
            "image_min_pixels": _NEVER_ENLARGED,
            "image_max_pixels": _never_shrunk(settings),
        }
        (folder / SETTINGS_FILE).write_text(yaml.safe_dump(needed, sort_keys=False), encoding="utf-8")

    def advice(self, settings: TrainerSettings) -> str:
        budget = settings.family.budget
        return (
            f"Call it in this folder, with what `{SETTINGS_FILE}` says: `dataset_dir: .`, `dataset: {DATASET}`, "
            f"`template: {_template(settings.family)}`, `cutoff_len: {settings.max_length}`, "
            f"`image_max_pixels: {_never_shrunk(settings)}`, `image_min_pixels: {_NEVER_ENLARGED}`. With these "
            "LLaMA-Factory hands every picture on as it is; by default it shrinks those above 589,824 pixels, by a "
            "rule of its own, and the positions are wrong. The processor of the model then fits pictures into the "
            f"bounds of its `preprocessor_config.json`, which must be {budget.min_pixels:,} and {budget.max_pixels:,} "
            "pixels: the recipe `command` writes them there. Every row has one assistant message: earlier turns stand "
            "in the user message as the chat template writes them."
        )


def _never_shrunk(settings: TrainerSettings) -> int:
    return max(settings.largest_image, settings.family.budget.max_pixels)


def _template(family: Family) -> str:
    return "qwen3_vl_nothink" if family.budget.factor == QWEN3_VL.factor else "qwen2_vl"
