"""Runs docs/examples/online/verl_grpo.sh up to the model: verl's own checks of the settings, its rows, and an episode.

The words of the model are written; run by verl's Python.
"""

import asyncio
import os
import subprocess
from pathlib import Path
from runpy import run_path
from typing import Any

from hydra import compose, initialize_config_module
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, AgentLoopWorker
from verl.trainer.ppo.utils import create_rl_dataset, need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.workers.rollout.replica import TokenOutput

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "online"


class WrittenModel:
    def __init__(self, replies: list[str]) -> None:
        self.tokenizer: Any = None
        self._replies = replies
        self.asked: list[dict[str, Any]] = []

    async def generate(self, **asked: Any) -> TokenOutput:
        text = self._replies[len(self.asked) % len(self._replies)]
        self.asked.append(asked)
        ids = self.tokenizer.encode(text + self.tokenizer.eos_token)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


class Worker(AgentLoopWorker):  # type: ignore[misc]
    async def _agent_loop_postprocess(self, output: list[AgentLoopOutput], validate: bool, **row: Any) -> Any:
        """Return the turns, which verl's own would put into a queue."""
        return output


def main(url: str, model: str, replies: list[str]) -> dict[str, Any]:
    run_path(str(EXAMPLE / "verl_rows.py"))["main"](url, "train", "rows.parquet")
    os.environ |= {"TRAJMILL_SERVER": url, "PYTHON": "echo"}
    command = ["bash", str(EXAMPLE / "verl_grpo.sh"), "rows.parquet", model]
    _, _, *settings = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", settings)
    validate_config(config, need_reference_policy(config), need_critic(config))
    client = WrittenModel(replies)
    worker = Worker(config, client)
    client.tokenizer = worker.tokenizer
    data = create_rl_dataset(config.data.train_files, config.data, worker.tokenizer, worker.processor, is_train=True)
    rows = [data[number] for number in range(len(data))]
    where = {"step": 0, "sample_index": 0, "rollout_n": 0, "validate": False}
    name = config.actor_rollout_ref.rollout.agent.default_agent_loop

    async def episodes() -> list[list[AgentLoopOutput]]:
        tried = [rows[0], rows[0] | {"query_id": "nope"}]
        return [await worker._run_agent_loop({}, where, agent_name=name, trace=False, **row) for row in tried]  # noqa: SLF001

    turns, unknown = asyncio.run(episodes())
    return {
        "queries": {row["query_id"]: row["seed"] for row in rows},
        "gpus": config.trainer.n_gpus_per_node,
        "rewards": [turn.reward_score for turn in turns],
        "info": turns[-1].extra_fields["reward_extra_info"],
        "rows": [sorted(turn.as_dict()) for turn in turns],
        "masks": [turn.response_mask == [1] * len(turn.response_ids) for turn in turns],
        "texts": [worker.tokenizer.decode(turn.response_ids, skip_special_tokens=True) for turn in turns],
        "prompts": [worker.tokenizer.decode(turn.prompt_ids) for turn in turns],
        "images": [[list(image.size) for image in asked["image_data"]] for asked in client.asked],
        "unknown": unknown,
    }
