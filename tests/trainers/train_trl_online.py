"""Runs docs/examples/online/trl_grpo.py in a process of several, with TRL's Python, on a tiny Qwen2.5-VL.

A random model never calls a tool. So the replies in the first process are written for it, and those in the others are
sampled by itself; all else is the example's own. Each process writes what came of it to a file.
"""

import json
import os
import sys
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForImageTextToText

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "online" / "trl_grpo.py"


def main(queries: str, written: str, *arguments: str) -> None:
    """`queries` are the ids to train on with their seeds, `written` the calls of a right attempt: both as JSON."""
    spec = spec_from_file_location("trl_grpo", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    rank = int(os.environ["RANK"])

    def tiny(folder: str, **given: Any) -> Any:
        network: Any = AutoModelForImageTextToText.from_pretrained(folder, **given)
        # The descriptions of the tools alone are longer than its context; rotary positions go further.
        network.config.text_config.max_position_embeddings = 8192
        if rank == 0:
            tokenizer = example.AutoProcessor.from_pretrained(folder).tokenizer
            network.generate = partial(_generate, network.generate, tokenizer, json.loads(written))
        return network

    served, kept = example.served_queries, json.loads(queries)
    example.served_queries = lambda url: Dataset.from_list(
        [{**row, "seed": kept[row["query_id"]]} for row in served(url) if row["query_id"] in kept]
    )
    example.AutoModelForImageTextToText = type("Tiny", (), {"from_pretrained": staticmethod(tiny)})
    trainer = example.main(list(arguments))
    weights = [parameter.double().sum().item() for parameter in trainer.model.parameters()]
    told = {"steps": trainer.state.global_step, "log": trainer.state.log_history, "weights": weights}
    Path(f"told-{rank}.json").write_text(json.dumps(told))


def _generate(sample: Any, tokenizer: Any, written: list[Any], *args: Any, **kwargs: Any) -> torch.Tensor:
    sampled: torch.Tensor = sample(*args, **kwargs)
    [prompt] = kwargs["input_ids"]
    call = written[tokenizer.decode(prompt).count("<tool_response>")]
    text = f"<tool_call>\n{json.dumps(call)}\n</tool_call>" if call else "Done."
    ids = torch.tensor(tokenizer.encode(text + tokenizer.eos_token))
    return torch.cat([prompt, ids]).unsqueeze(0).to(sampled.device)


if __name__ == "__main__":
    main(*sys.argv[1:])
