"""Rewards replies as TRL or verl does; run by the Python of their environments."""

from typing import Any

import torch
from transformers import AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

from tests.trainers.loaded import QUIET

RULES = ("ces", "coda", "action")


def main(trainer: str, **asked: Any) -> dict[str, list[float]]:
    return _trl(**asked) if trainer == "trl" else _verl(**asked)


def _trl(rows: list[list[str]], model: str, **_: Any) -> dict[str, list[float]]:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from trajmill.stages.export.rewards import action_rewards, ces_rewards, coda_rewards

    prompt = [{"role": "user", "content": "Go on."}]
    inputs: list[dict[str, Any]] = [{"prompt": prompt, "target": target} for target, _ in rows]
    settings = GRPOConfig(output_dir="trained", per_device_train_batch_size=2, num_generations=2, **QUIET)
    trainer = GRPOTrainer(
        model=AutoModelForImageTextToText.from_pretrained(model),
        reward_funcs=[ces_rewards, coda_rewards, action_rewards],
        args=settings,
        train_dataset=Dataset.from_list(inputs),
        processing_class=AutoProcessor.from_pretrained(model),  # type: ignore[no-untyped-call]
    )
    said = [[{"role": "assistant", "content": reply}] for _, reply in rows]
    rewards = trainer._calculate_rewards(inputs, [prompt] * len(rows), said, [[0]] * len(rows))  # noqa: SLF001
    return {rule: rewards[:, column].tolist() for column, rule in enumerate(RULES)}


def _verl(rows: list[list[str]], model: str, reward_file: str) -> dict[str, list[float]]:
    import numpy as np
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    tokenizer: Any = AutoTokenizer.from_pretrained(model)

    def sample(target: str, reply: str) -> DataProto:
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

    found = {}
    for rule in RULES:
        ours = {"path": reward_file, "name": "compute_score", "reward_kwargs": {"rule": rule}}
        manager = {"source": "register", "name": "naive"}
        config = OmegaConf.create({"reward": {"custom_reward_function": ours, "reward_manager": manager}})
        judge = load_reward_manager(config, tokenizer)
        samples = (sample(target, reply) for target, reply in rows)
        found[rule] = [judge.loop.run_until_complete(judge.run_single(each))["reward_score"] for each in samples]
    return found
