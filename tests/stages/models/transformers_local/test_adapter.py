"""A LoRA adapter on a model in this process: it acts as the same weights without an adapter would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText

from tests.stages.models.scripted import request
from tests.stages.models.transformers_local.tiny_vlm import MAX_PIXELS, build_tiny_vlm
from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.local.folder import TransformersSpec, folder_version
from trajmill.stages.models.transformers_local.model import TransformersModel

pytestmark = pytest.mark.slow

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_vlm(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def adapter(folder: Path) -> Path:
    """An adapter of random weights, large enough to change what the model says."""
    # PEFT takes three seconds to import, which each process that collects tests would spend.
    from peft import LoraConfig, get_peft_model

    network = AutoModelForImageTextToText.from_pretrained(folder)
    adapted = get_peft_model(network, LoraConfig(r=4, lora_alpha=16, target_modules=["o_proj"]))
    torch.manual_seed(0)
    for name, weights in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weights)
    adapted.save_pretrained(folder.parent / "adapter")
    return folder.parent / "adapter"


async def said(spec: TransformersSpec) -> str:
    asked = request("Order a pizza", "policy", max_tokens=12)
    return (await TransformersModel(spec).complete(asked)).text


async def test_an_adapter_acts_as_its_merged_weights_do(folder: Path, adapter: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    plain = TransformersSpec(model=folder, family="qwen2.5-vl", max_pixels=MAX_PIXELS)
    version = folder_version(adapter)
    adapted = plain.with_version(version, folder, adapter)
    shutil.copytree(folder, tmp_path / "merged")
    network = PeftModel.from_pretrained(AutoModelForImageTextToText.from_pretrained(folder), str(adapter))
    network.merge_and_unload().save_pretrained(tmp_path / "merged")
    merged = plain.with_version("merged", tmp_path / "merged")
    assert await said(adapted) == await said(merged) != await said(plain)
    assert adapted.version == TransformersModel(adapted).version == version != plain.version
    assert (adapted.weights_folder, adapted.adapter_folder) == (folder, adapter)
    assert adapted.with_version("plain", folder) == plain


def test_an_adapter_of_another_model_gives_one_error_line(folder: Path, adapter: Path, tmp_path: Path) -> None:
    shutil.copytree(adapter, tmp_path / "other")
    cut = {name: weights[..., :2].contiguous() for name, weights in load_file(adapter / WEIGHTS).items()}
    save_file(cut, tmp_path / "other" / WEIGHTS)
    spec = TransformersSpec(model=folder, family="qwen2.5-vl", max_pixels=MAX_PIXELS, adapter=tmp_path / "other")
    with pytest.raises(BadInputError, match=r"\A\S+other: no adapter of this model: [^\n]+\Z"):
        TransformersModel(spec)
