import json
from pathlib import Path

import torch
from safetensors.torch import save_file

_RANK = 4
_WIDTH = 128
_LAYERS = 2
_MODULE = "base_model.model.model.language_model.layers.{layer}.self_attn.o_proj.lora_{side}.weight"


def tiny_adapter(folder: Path, name: str, seed: int, rank: int = _RANK) -> Path:
    """An adapter of random weights, large enough to change what the model says."""
    path = folder / name
    path.mkdir(parents=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "",
        "r": rank,
        "lora_alpha": 16,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["o_proj"],
    }
    (path / "adapter_config.json").write_text(json.dumps(config))
    random = torch.Generator().manual_seed(seed)
    weights: dict[str, torch.Tensor] = {}
    for layer in range(_LAYERS):
        weights[_MODULE.format(layer=layer, side="A")] = torch.randn(rank, _WIDTH, generator=random)
        weights[_MODULE.format(layer=layer, side="B")] = torch.randn(_WIDTH, rank, generator=random)
    save_file(weights, path / "adapter_model.safetensors")
    return path
