"""Two updates of TRL's `GRPOTrainer` on a tiny Qwen2.5-VL; run by the Python of TRL's environment.

A random model never calls a tool. So one of the two generations of each prompt is written for it, and the other one
sampled by itself; the updates are TRL's own.
"""

import json
from functools import partial
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_vl_chat_template

from tests.trainers.loaded import QUIET
from trajmill.stages.environments.openenv.trl import TrlPhone

_UPDATES = 2


def main(url: str, model: str) -> dict[str, Any]:
    processor = AutoProcessor.from_pretrained(model)  # type: ignore[no-untyped-call]
    processor.chat_template = processor.tokenizer.chat_template = qwen3_vl_chat_template
    network: Any = AutoModelForImageTextToText.from_pretrained(model)
    # The descriptions of the tools alone are longer than its context; rotary positions go further.
    network.config.text_config.max_position_embeddings = 8192
    before = [parameter.detach().clone() for parameter in network.parameters()]
    written = [
        _call("click", x=14, y=14) + processor.tokenizer.eos_token,
        _call("finish", status="success") + processor.tokenizer.eos_token,
        "Done." + processor.tokenizer.eos_token,
    ]
    network.generate = partial(_generate, network.generate, processor.tokenizer, written)
    visual = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    settings = GRPOConfig(
        output_dir="trained",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=1,
        num_generations=2,
        max_completion_length=400,
        max_tool_calling_iterations=3,
        max_steps=_UPDATES,
        learning_rate=1e-3,
        logging_steps=1,
        **QUIET,
        save_strategy="no",
        generation_kwargs={"suppress_tokens": processor.tokenizer.convert_tokens_to_ids(visual), "max_new_tokens": 24},
    )
    rows = [
        {"prompt": [{"role": "user", "content": "You use a phone."}], "query_id": query_id, "seed": seed}
        for seed, query_id in enumerate(["press", "press_again"])
    ]
    trainer = GRPOTrainer(
        model=network,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=processor,
        environment_factory=partial(TrlPhone, url, policy="tiny"),
    )
    trainer.train()
    moved = [not torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True)]
    return {"steps": trainer.state.global_step, "log": trainer.state.log_history, "moved": sum(moved)}


def _call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def _generate(sample: Any, tokenizer: Any, written: list[str], *args: Any, **kwargs: Any) -> torch.Tensor:
    sampled = sample(*args, **kwargs)
    prompt = kwargs["input_ids"].shape[1]
    asked = tokenizer.decode(kwargs["input_ids"][0])
    text = written[min(asked.count("<tool_response>"), 2)]
    row = torch.cat([sampled[0, :prompt], torch.tensor(tokenizer.encode(text))])
    width = max(len(row), sampled.shape[1])
    padded = [
        torch.nn.functional.pad(each, (0, width - len(each)), value=tokenizer.pad_token_id)
        for each in [row, *sampled[1:]]
    ]
    return torch.stack(padded)
