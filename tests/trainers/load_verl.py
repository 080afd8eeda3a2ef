"""Loads exported rows with verl's data sets; run by the Python of verl's environment."""

import asyncio
from functools import cache, partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from transformers import AutoProcessor
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.import_utils import load_extern_object

from tests.trainers.loaded import IGNORED, Job, LoadedRow, grids_of, loaded_row, run


def supervised(job: Job) -> list[LoadedRow]:
    processor = _processor(job.processor)
    settings = OmegaConf.create({"max_length": job.max_length, "pad_mode": "no_padding", "truncation": "error"})
    rows = MultiTurnSFTDataset(job.shards(), processor.tokenizer, settings, processor)
    return [_row(processor, rows[number]) for number in range(len(rows))]


def _row(processor: Any, item: dict[str, Any]) -> LoadedRow:
    ids, learned = item["input_ids"].tolist(), item["loss_mask"].tolist()
    labels = [token if mask else IGNORED for token, mask in zip(ids, learned, strict=True)]
    return loaded_row(processor.tokenizer, ids, labels, grids_of(item.get("multi_modal_inputs", {})))


def with_rewards(job: Job) -> dict[str, Any]:
    processor = _processor(job.processor)
    # No workers: a process that has used torch cannot be forked safely, and a forked one was seen to wait for ever.
    settings = OmegaConf.create(
        {"max_prompt_length": job.max_length, "cache_dir": job.work, "filter_overlong_prompts_workers": None}
    )
    rows = RLHFDataset(job.shards(), processor.tokenizer, settings, processor)
    compute_score = load_extern_object(str(Path(job.folder) / "reward.py"), "compute_score")
    items = [rows[number] for number in range(len(rows))]
    scores = [
        compute_score(
            data_source=item["data_source"],
            solution_str=reply,
            ground_truth=item["reward_model"]["ground_truth"],
            extra_info=item["extra_info"],
        )
        for item, reply in zip(items, job.replies, strict=True)
    ]
    return {
        "rows": [asyncio.run(_prompt(processor, rows, item)) for item in items],
        "rewards": [score["score"] for score in scores],
        "indices": [item["index"] for item in items],
    }


@cache
def _processor(folder: str) -> Any:
    return AutoProcessor.from_pretrained(folder)  # type: ignore[no-untyped-call]


async def _prompt(processor: Any, rows: RLHFDataset, item: dict[str, Any]) -> LoadedRow:
    messages = item["raw_prompt"]
    images, _ = await RLHFDataset.process_vision_info(messages, rows.image_patch_size, rows.config)
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    told = processor(text=[text], images=images, return_tensors="pt")
    ids = told["input_ids"][0].tolist()
    return loaded_row(processor.tokenizer, ids, [IGNORED] * len(ids), told["image_grid_thw"].tolist())


main = partial(run, {"verl-sft": supervised, "verl": with_rewards})
