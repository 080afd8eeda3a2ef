"""Loads exported rows with ms-swift; run by the Python of its environment."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from swift.dataset import load_dataset
from swift.model import get_processor
from swift.template import get_template

from tests.trainers.loaded import IGNORED, Job, grids_of, loaded_row, run


def supervised(job: Job) -> dict[str, Any]:
    os.environ["ROOT_IMAGE_DIR"] = job.folder
    rows, _ = load_dataset(job.shards(), load_from_cache_file=False)
    # More than one template fits the architecture of Qwen2.5-VL; a user names it by `--template`.
    kind = json.loads((Path(job.processor) / "config.json").read_text())["model_type"]
    processor = get_processor(job.processor, model_type=kind)
    template = get_template(processor, template_type=kind, max_length=job.max_length, is_binary_loss_scale=False)
    template.set_mode("train")
    told, scales = [], []
    for row in rows:
        encoded = template.encode(dict(row))
        told.append(loaded_row(processor.tokenizer, encoded["input_ids"], encoded["labels"], grids_of(encoded)))
        scales.append(_scales(encoded, processor.tokenizer.eos_token_id))
    return {"rows": told, "scales": scales}


def _scales(encoded: dict[str, Any], end: int) -> list[float]:
    labels = encoded["labels"]
    scales = encoded.get("loss_scale") or [1.0] * len(labels)
    reply = [scale for label, scale in zip(labels, scales, strict=True) if label not in (IGNORED, end)]
    # The last one is of the line break after the end.
    return sorted(set(reply[:-1]))


main = partial(run, {"swift": supervised})
