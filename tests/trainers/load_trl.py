"""Loads exported rows with TRL's trainers; run by the Python of TRL's environment."""

from functools import cache, partial
from typing import Any

from datasets import Dataset, load_dataset
from torch.utils.data import SequentialSampler
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer
from trl.data_utils import prepare_multimodal_messages

from tests.trainers.loaded import IGNORED, QUIET, Job, LoadedRow, grids_of, loaded_row, run
from trajmill.stages.export.rewards import ces_rewards


class InOrder(SFTTrainer):  # type: ignore[misc]
    def _get_train_sampler(self, *_: Any) -> Any:
        return SequentialSampler(self.train_dataset)


def supervised(job: Job) -> list[LoadedRow]:
    processor = _processor(job.processor)
    settings = SFTConfig(output_dir=job.work, max_length=job.max_length, per_device_train_batch_size=1, **QUIET)
    trainer = InOrder(model=_model(job), args=settings, train_dataset=_rows(job), processing_class=processor)
    rows = []
    for batch in trainer.get_train_dataloader():
        kept = batch["attention_mask"][0].bool()
        ids, labels = batch["input_ids"][0][kept].tolist(), batch["labels"][0][kept].tolist()
        grids = grids_of(batch)
        assert not grids or batch["pixel_values"].shape[0] == sum(time * high * wide for time, high, wide in grids)
        rows.append(loaded_row(processor.tokenizer, ids, labels, grids))
    return rows


def with_preferences(job: Job) -> dict[str, Any]:
    """The rows with the chosen replies, and the texts of the rejected ones."""
    processor = _processor(job.processor)
    settings = DPOConfig(output_dir=job.work, max_length=job.max_length, **QUIET)
    rows = _rows(job)
    models = {"model": _model(job), "ref_model": _model(job)}
    trainer = DPOTrainer(**models, args=settings, train_dataset=rows, processing_class=processor)
    chosen, rejected = [], []
    for row in rows:
        batch = trainer.data_collator([dict(row)])
        grids = grids_of(batch)
        texts = []
        for ids, kept, learned in zip(
            batch["input_ids"], batch["attention_mask"], batch["completion_mask"], strict=True
        ):
            labels = [int(token) for token, counts in zip(ids, learned, strict=True) if counts]
            texts.append(loaded_row(processor.tokenizer, ids[kept.bool()].tolist(), labels, grids[: len(grids) // 2]))
        chosen.append(texts[0])
        rejected.append(texts[1].learned)
    return {"rows": chosen, "rejected": rejected}


def with_rewards(job: Job) -> dict[str, Any]:
    processor = _processor(job.processor)
    rows = _rows(job)
    settings = GRPOConfig(output_dir=job.work, per_device_train_batch_size=2, num_generations=2, **QUIET)
    trainer = GRPOTrainer(
        model=_model(job), reward_funcs=ces_rewards, args=settings, train_dataset=rows, processing_class=processor
    )
    inputs = [rows[number] for number in range(len(rows))]
    said = [[{"role": "assistant", "content": reply}] for reply in job.replies]
    prompts = [row["prompt"] for row in inputs]
    rewards = trainer._calculate_rewards(inputs, prompts, said, [[0]] * len(inputs))  # noqa: SLF001
    return {"rows": [_prompt(trainer, processor, row) for row in inputs], "rewards": rewards[:, 0].tolist()}


def _prompt(trainer: GRPOTrainer, processor: Any, row: dict[str, Any]) -> LoadedRow:
    messages = prepare_multimodal_messages(row["prompt"], images=row["images"])
    (ids,), _, fields = trainer._tokenize_prompts([messages])  # noqa: SLF001
    return loaded_row(processor.tokenizer, ids, [IGNORED] * len(ids), fields["image_grid_thw"].tolist())


@cache
def _processor(folder: str) -> Any:
    return AutoProcessor.from_pretrained(folder)  # type: ignore[no-untyped-call]


def _rows(job: Job) -> Dataset:
    return load_dataset("parquet", data_files=job.shards(), split="train", cache_dir=job.work)


def _model(job: Job) -> Any:
    return AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(job.processor))  # type: ignore[no-untyped-call]


main = partial(run, {"trl": supervised, "grpo": with_rewards, "dpo": with_preferences})
