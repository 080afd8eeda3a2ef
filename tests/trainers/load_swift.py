"""Loads exported rows with ms-swift; run by the Python of its environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from swift.dataset import load_dataset
from swift.model import get_processor
from swift.template import get_template

from tests.trainers.loaded import Job, loaded_row, run


def supervised(job: Job) -> dict[str, Any]:
    """The rows of `load_dataset` as the template encodes them, with the scale of the loss on each reply."""
    os.environ["ROOT_IMAGE_DIR"] = job.folder
    os.environ["MIN_PIXELS"], os.environ["MAX_PIXELS"] = str(job.min_pixels), str(job.max_pixels)
    rows, _ = load_dataset(job.shards(), load_from_cache_file=False)
    # More than one kind of model has the architecture of Qwen2.5-VL.
    model_type = json.loads((Path(job.processor) / "config.json").read_text())["model_type"]
    processor = get_processor(job.processor, model_type=model_type)
    template = get_template(processor, max_length=job.max_length, is_binary_loss_scale=False)
    template.set_mode("train")
    told, scales = [], []
    for row in rows:
        encoded = template.encode(dict(row))
        grids = encoded["image_grid_thw"].tolist()
        told.append(loaded_row(processor.tokenizer, encoded["input_ids"], encoded["labels"], grids))
        scale = encoded.get("loss_scale") or [1.0] * len(encoded["labels"])
        scales.append(sorted({weight for weight, label in zip(scale, encoded["labels"], strict=True) if label != -100}))
    return {"rows": told, "scales": scales}


if __name__ == "__main__":
    run({"swift": supervised})
