"""Runs our agent loop as verl's worker does, with a model whose words are written; run by verl's Python."""

import asyncio
from typing import Any

import hydra
from omegaconf import OmegaConf
from transformers import AutoProcessor
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from trajmill.stages.online.verl_agent_loop import NAME

_CONFIG = {
    "actor_rollout_ref": {"rollout": {"prompt_length": 8192, "response_length": 512}},
    "data": {"apply_chat_template_kwargs": {}, "mm_processor_kwargs": {}},
}


class WrittenModel:
    def __init__(self, tokenizer: Any, replies: list[str]) -> None:
        self._tokenizer = tokenizer
        self._replies = replies
        self.asked: list[dict[str, Any]] = []

    async def generate(self, **asked: Any) -> TokenOutput:
        text = self._replies[len(self.asked) % len(self._replies)]
        self.asked.append(asked)
        ids = self._tokenizer.encode(text + self._tokenizer.eos_token)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


async def _main(servers: list[str], model: str, replies: list[str]) -> dict[str, Any]:
    processor = AutoProcessor.from_pretrained(model)  # type: ignore[no-untyped-call]
    client = WrittenModel(processor.tokenizer, replies)
    # As a file named by `actor_rollout_ref.rollout.agent.agent_loop_config_path` says.
    target = "trajmill.stages.online.verl_agent_loop.GuiAgentLoop"
    described = OmegaConf.create({"name": NAME, "_target_": target, "servers": servers, "policy": "tiny"})
    config = OmegaConf.create(_CONFIG)
    loop = hydra.utils.instantiate(
        config={key: value for key, value in described.items() if key != "name"},
        trainer_config=DictConfigWrap(config=config),
        server_manager=client,
        tokenizer=processor.tokenizer,
        processor=processor,
        hf_model_type="qwen2_5_vl",
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        tools=ToolListWrap([]),
    )
    turns = await loop.run({"temperature": 1.0}, query_id="press", seed=3, raw_prompt=[])
    unknown = await loop.run({"temperature": 1.0}, query_id="nope", raw_prompt=[])
    return {
        "rewards": [turn.reward_score for turn in turns],
        "info": turns[-1].extra_fields["reward_extra_info"],
        "rows": [sorted(turn.as_dict()) for turn in turns],
        "masks": [turn.response_mask == [1] * len(turn.response_ids) for turn in turns],
        "texts": [processor.tokenizer.decode(turn.response_ids, skip_special_tokens=True) for turn in turns],
        "prompts": [processor.tokenizer.decode(turn.prompt_ids) for turn in turns],
        "images": [[list(image.size) for image in asked["image_data"]] for asked in client.asked],
        "unknown": unknown,
    }


def main(**asked: Any) -> Any:
    return asyncio.run(_main(**asked))
