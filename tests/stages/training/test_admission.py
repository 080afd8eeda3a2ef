import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from trajmill.schemas.errors import BadInputError
from trajmill.stages.training.admission import admit

WEIGHTS = {
    "model.embed_tokens.weight": torch.zeros(6, 4),
    "model.layers.0.q_proj.weight": torch.zeros(8, 4, dtype=torch.bfloat16),
    "model.layers.0.scale": torch.tensor(1.0),
}
ADAPTER = {
    "base_model.model.model.language_model.layers.0.q_proj.lora_A.weight": torch.zeros(2, 4),
    "base_model.model.model.language_model.layers.0.q_proj.lora_B.weight": torch.zeros(8, 2),
}
A, B = ADAPTER


def write(folder: Path, *shards: dict[str, Tensor], config: str = '{"model_type": "qwen2"}') -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(config)
    for number, shard in enumerate(shards):
        save_file(shard, folder / f"model-{number}.safetensors")
    if len(shards) > 1:
        places = {name: f"model-{number}.safetensors" for number, shard in enumerate(shards) for name in shard}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder


def write_adapter(folder: Path, tensors: dict[str, Tensor]) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def halves(weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    first, *others = weights.items()
    return dict([first]), dict(others)


def without(weights: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {other: value for other, value in weights.items() if other != name}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4])


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write(tmp_path / "base", WEIGHTS)


def test_whole_weights_and_adapters_are_admitted(base: Path, tmp_path: Path) -> None:
    admit(base, base)
    admit(write(tmp_path / "shards", *halves(WEIGHTS)), base)
    wrapped = {name.replace("model.", "model.language_model."): value for name, value in WEIGHTS.items()}
    admit(write(tmp_path / "wrapped", wrapped | {"lm_head.weight": torch.ones(6, 4)}), base)
    adapter = write_adapter(tmp_path / "adapter", ADAPTER)
    admit(adapter, base)
    admit(adapter, None)


NAN, Q = float("nan"), "model.layers.0.q_proj.weight"


@pytest.mark.parametrize(
    ("tensors", "spoil", "said"),
    [
        (WEIGHTS | {Q: torch.full((8, 4), NAN)}, None, f"{Q} has values that are NaN or infinite"),
        (WEIGHTS | {"model.layers.0.scale": torch.tensor(float("inf"))}, None, "scale has values that are NaN"),
        (WEIGHTS | {Q: torch.zeros(4, 8)}, None, r"q_proj.weight has shape \[4, 8\]; the parent's has \[8, 4\]"),
        (without(WEIGHTS, Q), None, "1 tensors of the parent are missing, layers.0.q_proj.weight is the first"),
        (WEIGHTS | {"extra": torch.zeros(1)}, None, "1 tensors are none of the parent's, extra is the first"),
        (WEIGHTS, lambda new: cut(new / "model-0.safetensors"), "broken weights"),
        (WEIGHTS, lambda new: (new / "model-1.safetensors").unlink(), "model-1.safetensors is missing, which"),
        (WEIGHTS, lambda new: (new / "config.json").write_text('{"model_type": "llama"}'), "a model of type llama"),
        (WEIGHTS, lambda new: (new / "config.json").write_text("{"), "no JSON object"),
    ],
)
def test_broken_weights_are_not_admitted(
    tensors: dict[str, Tensor], spoil: Callable[[Path], object] | None, said: str, base: Path, tmp_path: Path
) -> None:
    new = write(tmp_path / "new", *(halves(tensors) if spoil else (tensors,)))
    if spoil is not None:
        spoil(new)
    with pytest.raises(BadInputError, match=said) as error:
        admit(new, base)
    assert str(error.value).startswith("not admitted: ") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (ADAPTER | {B: torch.full((8, 2), NAN)}, "has values that are NaN or infinite"),
        (ADAPTER | {B: torch.zeros(8, 3)}, "has rank 2, and its lora_B 3"),
        (ADAPTER | {A: torch.zeros(2, 5)}, r"adapts a matrix of shape \[8, 5\]; the base's has \[8, 4\]"),
        (without(ADAPTER, B), "has no lora_B"),
        ({name.replace("q_proj", "k_proj"): value for name, value in ADAPTER.items()}, "which the base has not"),
        ({"a": torch.zeros(1)}, "no tensor of a LoRA adapter"),
    ],
)
def test_adapters_that_are_none_of_the_base_are_not_admitted(
    tensors: dict[str, Tensor], said: str, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match=said):
        admit(write_adapter(tmp_path / "new", tensors), base)
