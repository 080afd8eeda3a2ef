"""What can be known of vLLM in this process where it is not installed; the rest is in tests/vllm/test_offline.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.vllm_offline.model import VllmModel
from trajmill.stages.models.vllm_offline.spec import VllmSpec


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"^vLLM cannot be imported .*: pip install vllm$"):
        VllmModel(VllmSpec(model=build_tiny_vlm(tmp_path / "tiny")))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"config\.json is missing"):
        VllmModel(VllmSpec(model=tmp_path))
