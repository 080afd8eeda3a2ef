"""Loads exported rows with LLaMA-Factory; run by the Python of its environment."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import yaml
from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams import get_train_args
from llamafactory.model import load_tokenizer

from tests.trainers.loaded import Job, LoadedRow, grids_of, loaded_row, run


def supervised(job: Job) -> list[LoadedRow]:
    exported = yaml.safe_load((Path(job.folder) / "llamafactory.yaml").read_text())
    model, data, training, _, _ = get_train_args(
        exported
        | {
            "model_name_or_path": job.processor,
            "dataset_dir": job.folder,
            "media_dir": job.folder,
            "output_dir": job.work,
            "cache_dir": job.work,
            "overwrite_cache": True,
            "do_train": True,
            "use_cpu": True,
            "bf16": False,
            "finetuning_type": "full",
            "report_to": "none",
        }
    )
    loaded = load_tokenizer(model)
    tokenizer, processor = loaded["tokenizer"], loaded["processor"]
    template = get_template_and_fix_tokenizer(tokenizer, data)
    rows = get_dataset(template, model, data, training, stage="sft", **loaded)["train_dataset"]
    told = []
    for row in rows:
        images = row["images"] or []
        pictures = template.mm_plugin.get_mm_inputs(
            images, [], [], [len(images)], [0], [0], [row["input_ids"]], processor
        )
        told.append(loaded_row(tokenizer, row["input_ids"], row["labels"], grids_of(pictures)))
    return told


main = partial(run, {"llamafactory": supervised})
