"""Online GRPO with TRL on one machine with eight GPUs: vLLM samples inside the trainer's processes.

    trajmill env serve --slots 64 --family qwen3-vl
    accelerate launch --num_processes 8 --mixed_precision bf16 trl_grpo.py --vllm \
        --model Qwen/Qwen3-VL-8B-Instruct --family qwen3-vl --out trained
    trajmill policy add --adapter trained

The trainer's environment needs `pip install 'trl[vllm]' peft trajmill`. docs/online.md says what of this was run.
"""

import argparse
import json
from functools import partial
from urllib.request import Request, urlopen

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_vl_chat_template

from trajmill import TrlDesktop, TrlPhone

VISUAL = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
"""Tokens that no reply may have: each stands for a picture."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--model", required=True, help="folder or name of a Qwen2.5-VL, Qwen3-VL or GUI-Owl")
    made.add_argument("--family", default="qwen2.5-vl", help="its family, as `env serve` has it")
    made.add_argument("--url", default="http://127.0.0.1:8000", help="address of `env serve`")
    made.add_argument("--policy", default="trl-grpo", help="version of the policy in the rows")
    made.add_argument("--out", default="trained")
    made.add_argument("--vllm", action="store_true", help="sample with vLLM on the same GPUs, not with transformers")
    made.add_argument("--cpu", action="store_true", help="train on CPUs, in float32")
    made.add_argument("--lora-rank", type=int, default=32, help="0 trains all weights")
    made.add_argument("--group", type=int, default=8, help="attempts at one query")
    made.add_argument("--rows-at-once", type=int, default=1, help="attempts in one process that share a forward pass")
    made.add_argument("--accumulate", type=int, default=8, help="forward passes to one update")
    made.add_argument("--updates", type=int, default=200)
    made.add_argument("--learning-rate", type=float, default=1e-5)
    made.add_argument("--max-turns", type=int, default=15)
    made.add_argument(
        "--max-tokens", type=int, default=16_384, help="of one attempt after its first screen, screens too"
    )
    made.add_argument("--turn-tokens", type=int, default=512, help="of one reply")
    made.add_argument(
        "--max-pixels", type=int, default=602_112, help="of one screen; 602,112 are about 600 to 770 tokens"
    )
    return made


def served_queries(url: str) -> Dataset:
    """The training queries of the server. `environment` chooses the actions; a group shares its seed."""
    asked = Request(f"{url}/trajmill/tasks", b'{"split": "train"}', {"Content-Type": "application/json"})
    with urlopen(asked) as answer:
        tasks = json.load(answer)["tasks"]
    said = [{"role": "user", "content": "You operate a device. Call one tool at a time until the task is done."}]
    return Dataset.from_list(
        [
            {"prompt": said, "query_id": task["query_id"], "environment": task["platform"], "seed": number}
            for number, task in enumerate(tasks)
        ]
    )


def main(arguments: list[str] | None = None) -> GRPOTrainer:
    given = parser().parse_args(arguments)
    processor = AutoProcessor.from_pretrained(given.model)
    # The template of Qwen2.5-VL has no tools.
    processor.chat_template = processor.tokenizer.chat_template = qwen3_vl_chat_template
    visual = processor.tokenizer.convert_tokens_to_ids(VISUAL)
    if given.vllm:
        sampling = {"logit_bias": dict.fromkeys(visual, -100.0), "max_tokens": given.turn_tokens}
    else:
        sampling = {"suppress_tokens": visual, "max_new_tokens": given.turn_tokens}
    environment = {"family": given.family, "policy": given.policy, "max_pixels": given.max_pixels}
    phone, desktop = (partial(each, given.url, **environment) for each in (TrlPhone, TrlDesktop))
    trainer = GRPOTrainer(
        model=AutoModelForImageTextToText.from_pretrained(given.model, dtype="float32" if given.cpu else "bfloat16"),
        processing_class=processor,
        train_dataset=served_queries(given.url),
        environment_factory={"phone": phone, "desktop": desktop, "web": desktop},
        peft_config=LoraConfig(
            r=given.lora_rank,
            lora_alpha=2 * given.lora_rank,
            target_modules="all-linear",
            exclude_modules=r"(.*\.)?visual\..*",  # vLLM serves no adapters of the vision tower
        )
        if given.lora_rank
        else None,
        args=GRPOConfig(
            output_dir=given.out,
            num_generations=given.group,
            per_device_train_batch_size=given.rows_at_once,
            gradient_accumulation_steps=given.accumulate,
            max_steps=given.updates,
            learning_rate=given.learning_rate,
            max_tool_calling_iterations=given.max_turns,
            max_completion_length=given.max_tokens,
            generation_kwargs=sampling,
            use_vllm=given.vllm,
            vllm_mode="colocate",
            vllm_gpu_memory_utilization=0.35,
            vllm_max_model_length=given.max_tokens + 4096,
            vllm_enable_sleep_mode=given.vllm and not given.cpu,
            gradient_checkpointing=True,
            use_cpu=given.cpu,
            bf16=not given.cpu,
            logging_steps=1,
            save_steps=50,
            report_to="none",
        ),
    )
    trainer.train()
    trainer.save_model(given.out)
    if trainer.accelerator.is_main_process:
        # With the model's own template, which its servers use.
        AutoProcessor.from_pretrained(given.model).save_pretrained(given.out)
    return trainer


if __name__ == "__main__":
    main()
