"""Asks a vLLM engine in this process a few questions and prints what came of them, as JSON.

Run by the Python that vLLM is installed for, with the folders of a tiny model and of an adapter as its arguments.
"""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.stages.models.pictures import striped
from tests.stages.models.transformers_local.tiny_vlm import CONTEXT, FACTOR, MAX_PIXELS, MIN_PIXELS
from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion, MessagePart
from trajmill.stages.models.local.folder import VllmSpec
from trajmill.stages.models.vllm_offline.model import VllmModel

BUDGET: Final = PixelBudget(factor=FACTOR, min_pixels=MIN_PIXELS, max_pixels=MAX_PIXELS)
ENGINE: Final = {
    "max_model_len": CONTEXT,
    "dtype": "float32",
    "enforce_eager": True,
    "limit_mm_per_prompt": {"image": 4, "video": 0},
    "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
}
SCHEMA: Final = json.dumps({"type": "object", "properties": {"correct": {"type": "boolean"}}, "required": ["correct"]})


def chat(*parts: MessagePart) -> ChatRequest:
    return ChatRequest("critic", (ChatMessage("system", ("You judge.",)), ChatMessage("user", parts)), max_tokens=12)


REQUESTS: Final = {
    "text": replace(chat("Hello <|im_end|>"), top_logprobs=3),
    "picture": replace(chat("What is this?", striped(100)), top_logprobs=3),
    "other picture": replace(chat("What is this?", striped(20)), top_logprobs=3),
    "two pictures": replace(chat("before", striped(100), "after", striped(20)), image_scale=0.5, top_logprobs=3),
    "sampled": replace(chat("Draw"), temperature=1.0, seed=3),
    "sampled again": replace(chat("Draw"), temperature=1.0, seed=3),
    "sampled otherwise": replace(chat("Draw"), temperature=1.0, seed=4),
    "three": replace(chat("Draw"), temperature=1.0, seed=3, n=3),
    "schema": replace(chat("Correct?"), answer_schema=SCHEMA, max_tokens=40),
    "too long": chat("x " * CONTEXT),
    "junk": chat("?", ScreenHandle("s1", Size(9, 9), lambda: b"junk")),
}


async def ask_all(model: VllmModel) -> dict[str, Any]:
    """The answer to each request, or the failure."""
    leaving = asyncio.ensure_future(model.complete(replace(chat("Bye"), max_tokens=1000)))
    await asyncio.sleep(0.2)
    leaving.cancel()
    answers = await asyncio.gather(*map(model.complete, REQUESTS.values()), return_exceptions=True)
    return {name: _plain(answer) for name, answer in zip(REQUESTS, answers, strict=True)}


def _plain(answer: Completion | BaseException) -> Any:
    if isinstance(answer, Completion):
        return answer._asdict()
    if isinstance(answer, ModelFailure):
        return {"failure": str(answer)}
    raise answer


def main() -> None:
    """Ask in two event loops, end the engine, ask a second one with the adapter, and wait for the owner."""
    spec = VllmSpec(model=Path(sys.argv[1]), family="qwen2.5-vl", max_pixels=MAX_PIXELS, engine=ENGINE)
    model = VllmModel(spec)
    rounds = [asyncio.run(ask_all(model)) for _ in range(2)]
    told: dict[str, Any] = {"version": model.version, "rounds": rounds}
    for _ in range(2):
        asyncio.run(model.close())
    adapted = VllmModel(spec.with_version("adapted", spec.model, Path(sys.argv[2])))
    told["adapted"] = _plain(asyncio.run(adapted.complete(REQUESTS["picture"])))
    print(json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
