"""What can be known of vLLM in this process where it is not installed; the rest is in tests/vllm/test_offline.py."""

import importlib.util
from pathlib import Path

import pytest

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.local.folder import VllmSpec
from trajmill.stages.models.vllm_offline.model import VllmModel, adapter_arguments

pytestmark = pytest.mark.slow


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"^vLLM cannot be imported .*: pip install vllm$"):
        VllmModel(VllmSpec(model=build_tiny_vlm(tmp_path / "tiny")))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (None, "is no LoRA adapter: it has no adapter_config.json"),
        ("{", "does not say the adapter's rank"),
        ("[]", "does not say the adapter's rank"),
        ('{"r": 513}', "rank 1 to 512, not 513"),
        ('{"r": 0}', "rank 1 to 512, not 0"),
        ('{"r": "8"}', "rank 1 to 512, not 8"),
    ],
)
def test_what_is_no_adapter_gives_one_error_line(tmp_path: Path, config: str | None, reason: str) -> None:
    if config is not None:
        (tmp_path / "adapter_config.json").write_text(config)
    with pytest.raises(BadInputError, match=reason) as refused:
        adapter_arguments(tmp_path)
    assert "\n" not in str(refused.value)


def test_an_engine_has_room_for_its_adapter_and_none_without_one(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"r": 9}')
    assert adapter_arguments(tmp_path) == {"enable_lora": True, "max_lora_rank": 16}
    assert adapter_arguments(None) == {}
