"""Runs docs/examples/online/trl_grpo.py in a process of several, with TRL's Python, on a tiny Qwen2.5-VL.

A random model never calls a tool. So the replies in the first process are written for it, and those in the others are
sampled by itself; all else is the example's own. Each process writes what came of it to a file.
"""

import json
import os
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoModelForImageTextToText

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "online"


def main(url: str, model: str, written: list[Any]) -> list[dict[str, Any]]:
    """Train in two processes; `written` are the calls of a right attempt, each a name and arguments."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", __name__]
    options = "--cpu --policy tiny --lora-rank 0 --group 2 --accumulate 1 --updates 2 --learning-rate 1e-3"
    options += f" --max-turns 3 --max-tokens 400 --turn-tokens 24 --url {url} --model {model}"
    subprocess.run([*command, json.dumps(written), *options.split()], check=True)
    return [json.loads(Path(f"told-{rank}.json").read_text()) for rank in (0, 1)]


def train(written: str, *options: str) -> None:
    sys.path.insert(0, str(EXAMPLES))
    example, rank = import_module("trl_grpo"), int(os.environ["RANK"])

    def tiny(folder: str, **given: Any) -> Any:
        network: Any = AutoModelForImageTextToText.from_pretrained(folder, **given)
        # The descriptions of the tools alone are longer than its context; rotary positions go further.
        network.config.text_config.max_position_embeddings = 8192
        if rank == 0:
            tokenizer = example.AutoProcessor.from_pretrained(folder).tokenizer
            network.generate = partial(_generate, network.generate, tokenizer, json.loads(written))
        return network

    vars(example)["AutoModelForImageTextToText"] = SimpleNamespace(from_pretrained=tiny)
    trainer = example.main(list(options))
    weights = [parameter.double().sum().item() for parameter in trainer.model.parameters()]
    told = {"log": trainer.state.log_history, "weights": weights}
    Path(f"told-{rank}.json").write_text(json.dumps(told))


def _generate(sample: Any, tokenizer: Any, written: list[Any], *args: Any, **kwargs: Any) -> torch.Tensor:
    sampled: torch.Tensor = sample(*args, **kwargs)
    [prompt] = kwargs["input_ids"]
    turn = tokenizer.decode(prompt).count("<tool_response>")
    calls = [{"name": name, "arguments": arguments} for name, arguments in written]
    text = f"<tool_call>\n{json.dumps(calls[turn])}\n</tool_call>" if turn < len(calls) else "Done."
    ids = torch.tensor(tokenizer.encode(text + tokenizer.eos_token))
    return torch.cat([prompt, ids]).unsqueeze(0).to(sampled.device)


if __name__ == "__main__":
    train(*sys.argv[1:])
