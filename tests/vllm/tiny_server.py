"""How vLLM is run on a CPU with the tiny model."""

from pathlib import Path
from typing import Final

from trajmill.stages.models.openai_api.spec import ModelServerSpec

MODEL: Final = "tiny-vlm"

SERVED_CONTEXT: Final = 8192
"""More than the model says it can: what it was not made for is nonsense too, and critics ask long questions."""

LONGEST_REPLY: Final = 128
"""Tokens of a reply at most, whatever a request allows."""

_ARGUMENTS: Final = (
    *("--max-model-len", str(SERVED_CONTEXT)),
    *("--dtype", "bfloat16"),
    "--enforce-eager",
    # A prompt that is read in parts kills vLLM 0.33 on a CPU if its answer is sampled with a seed.
    *("--max-num-batched-tokens", "32768"),
    *("--limit-mm-per-prompt", '{"image": 4, "video": 0}'),
    # A model that knows nothing would fill a schema with white space until its tokens are used up.
    *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
    # It would also talk until a critic's or a writer's tokens are used up.
    *("--override-generation-config", f'{{"max_new_tokens": {LONGEST_REPLY}}}'),
    "--enable-lora",
    *("--max-lora-rank", "8"),
)

ENVIRONMENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
    "HF_HUB_OFFLINE": "1",
    # One thread is enough for so small a model; several, each bound to a core, wait for one another on a busy machine.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    # The engine's process computes, too: a worker of its own would poll for its next step instead of sleeping.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Compiling takes forty seconds and makes so small a model no faster.
    "TORCH_COMPILE_DISABLE": "1",
}


def tiny_server(python: Path, model: Path, port: int) -> ModelServerSpec:
    """The server's configuration, as a user would write it."""
    return ModelServerSpec(
        python=python, model=str(model), port=port, arguments=_ARGUMENTS, environment=ENVIRONMENT, ready_seconds=3000.0
    )
