"""Rewards replies with TRL's `GRPOTrainer`; run by the Python of TRL's environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import GRPOConfig, GRPOTrainer

from trajmill.stages.export.rewards import action_rewards, ces_rewards, coda_rewards


def main(rows: list[list[str]], model: str) -> dict[str, list[float]]:
    """The rewards of replies to targets by each function."""
    prompt = [{"role": "user", "content": "Go on."}]
    inputs: list[dict[str, Any]] = [{"prompt": prompt, "target": target} for target, _ in rows]
    settings = GRPOConfig(
        output_dir="trained",
        per_device_train_batch_size=2,
        num_generations=2,
        use_cpu=True,
        bf16=False,
        report_to="none",
    )
    trainer = GRPOTrainer(
        model=AutoModelForImageTextToText.from_pretrained(model),
        reward_funcs=[ces_rewards, coda_rewards, action_rewards],
        args=settings,
        train_dataset=Dataset.from_list(inputs),
        processing_class=AutoProcessor.from_pretrained(model),  # type: ignore[no-untyped-call]
    )
    said = [[{"role": "assistant", "content": reply}] for _, reply in rows]
    rewards = trainer._calculate_rewards(inputs, [prompt] * len(rows), said, [[0]] * len(rows))  # noqa: SLF001
    return {rule: rewards[:, column].tolist() for column, rule in enumerate(("ces", "coda", "action"))}


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(main(given["rows"], given["model"])))
