"""How vLLM is run on a CPU with the tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from flows.config_model_server import ModelServerSection
from tests.stages.models.tiny_vlm import CONTEXT

MODEL: Final = "tiny-vlm"
"""Its name in requests."""

_ARGUMENTS: Final = (
    *("--max-model-len", str(CONTEXT)),
    *("--dtype", "bfloat16"),
    "--enforce-eager",
    *("--limit-mm-per-prompt", '{"image": 4, "video": 0}'),
    # A model that knows nothing would fill a schema with white space until its tokens are used up.
    *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
    "--enable-lora",
    *("--max-lora-rank", "8"),
)

ENVIRONMENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    # Compiling takes forty seconds and makes so small a model no faster.
    "TORCH_COMPILE_DISABLE": "1",
}
"""Of every process that runs vLLM."""


def tiny_server(python: Path, model: Path, port: int) -> ModelServerSection:
    """The server's configuration, as a user would write it."""
    return ModelServerSection(
        python=python, model=str(model), port=port, arguments=_ARGUMENTS, environment=ENVIRONMENT, ready_seconds=500.0
    )
