"""Updates of our `WeightedSFTTrainer` on exported rows; run by the Python of TRL's environment.

The first update takes all rows, each other one a single row; plain SGD, so a parameter moves by its gradient.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, load_dataset
from torch import Tensor
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor
from trl import SFTConfig, SFTTrainer

from tests.trainers.loaded import QUIET
from trajmill.stages.training.trl_sft import WeightedSFTTrainer

_TOGETHER = 2


def main(exported: str, model: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    rows = load_dataset("parquet", data_files=sorted(map(str, Path(exported, "data").iterdir())), split="train")
    trainer, moved = _updated(model, rows, _TOGETHER, WeightedSFTTrainer)
    first = [at for at, copy in enumerate(rows["copy"]) if copy == 0]
    alone = [_updated(model, rows.select([at]), 1, SFTTrainer) for at in first]
    tokens = [float((_batch(each)["labels"] != -100).sum()) for each, _ in alone]
    ids = rows["example_id"]
    weights = [sum(w for i, w in zip(ids, rows["loss_weight"], strict=True) if i == ids[at]) for at in first]
    counts = [weight * count for weight, count in zip(weights, tokens, strict=True)]
    apart = max(float((moved[name] - _mean([each[name] for _, each in alone], counts)).abs().max()) for name in moved)
    return {
        "copies": list(rows["copy"]),
        "weights": weights,
        "loss": _loss(trainer),
        "wanted": float(_mean([torch.tensor(_loss(each)) for each, _ in alone], counts)),
        "unweighted": float(_mean([torch.tensor(_loss(each)) for each, _ in alone], tokens)),
        "apart": apart,
        "largest": max(float(each.abs().max()) for each in moved.values()),
    }


def _updated(model: str, rows: Dataset, together: int, kind: type[Any]) -> tuple[Any, dict[str, Tensor]]:
    torch.manual_seed(0)
    settings = SFTConfig(
        output_dir="out",
        max_length=None,
        max_steps=1,
        per_device_train_batch_size=together,
        gradient_accumulation_steps=-(-len(rows) // together),
        learning_rate=1.0,
        max_grad_norm=0.0,
        optim="sgd",
        lr_scheduler_type="constant",
        logging_steps=1,
        **QUIET,
        save_strategy="no",
    )
    network: Any = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(model))  # type: ignore[no-untyped-call]
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    processor: Any = AutoProcessor.from_pretrained(model)  # type: ignore[no-untyped-call]
    trainer = kind(model=network, args=settings, train_dataset=rows, processing_class=processor)
    trainer.train()
    return trainer, {name: value.detach() - before[name] for name, value in network.named_parameters()}


def _batch(trainer: Any) -> Any:
    return next(iter(trainer.get_train_dataloader()))


def _loss(trainer: Any) -> float:
    return next(float(each["loss"]) for each in trainer.state.log_history if "loss" in each)


def _mean(parts: Sequence[Tensor], counts: Sequence[float]) -> Tensor:
    total: Tensor = sum((part * count for part, count in zip(parts, counts, strict=True)), torch.zeros(()))
    return total / sum(counts)
