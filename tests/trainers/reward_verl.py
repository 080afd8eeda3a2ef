"""Rewards replies with verl's own reward manager; run by the Python of verl's environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager


def main(rows: list[list[str]], model: str, reward_file: str) -> dict[str, list[float]]:
    """The rewards of replies to targets by each rule, configured as the export advises."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    found = {}
    for rule in ("ces", "coda", "action"):
        ours = {"path": reward_file, "name": "compute_score", "reward_kwargs": {"rule": rule}}
        manager = {"source": "register", "name": "naive"}
        config = OmegaConf.create({"reward": {"custom_reward_function": ours, "reward_manager": manager}})
        judge = load_reward_manager(config, tokenizer)
        found[rule] = [
            judge.loop.run_until_complete(judge.run_single(_sample(tokenizer, target, reply)))["reward_score"]
            for target, reply in rows
        ]
    return found


def _sample(tokenizer: Any, target: str, reply: str) -> DataProto:
    ids = torch.tensor([[*tokenizer.encode(reply), tokenizer.eos_token_id]])
    columns = {
        "data_source": "trajmill/simulated",
        "reward_model": {"style": "rule", "ground_truth": target},
        "extra_info": {"index": 0},
    }
    return DataProto.from_dict(
        {"responses": ids, "attention_mask": torch.ones_like(ids)},
        {name: np.array([value], dtype=object) for name, value in columns.items()},
    )


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(main(given["rows"], given["model"], given["reward_file"])))
