"""Loads exported rows with LLaMA-Factory; run by the Python of its environment."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams import get_train_args
from llamafactory.model import load_tokenizer

from tests.trainers.loaded import Job, LoadedRow, grids_of, loaded_row, run


def supervised(job: Job) -> list[LoadedRow]:
    return list(_loaded(job, "sft", ""))


def with_preferences(job: Job) -> dict[str, Any]:
    """The rows with the chosen replies, and the texts of the rejected ones."""
    rejected = [row.learned for row in _loaded(job, "rm", "rejected_")]
    return {"rows": list(_loaded(job, "rm", "chosen_")), "rejected": rejected}


def _loaded(job: Job, stage: str, prefix: str) -> Iterator[LoadedRow]:
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
    # A stage of training names the stage of its rows: preferences are those of reward modelling.
    for row in get_dataset(template, model, data, training, stage=stage, **loaded)["train_dataset"]:
        images, ids = row["images"] or [], row[f"{prefix}input_ids"]
        pictures = template.mm_plugin.get_mm_inputs(images, [], [], [len(images)], [0], [0], [ids], processor)
        yield loaded_row(tokenizer, ids, row[f"{prefix}labels"], grids_of(pictures))


main = partial(run, {"llamafactory": supervised, "dpo": with_preferences})
