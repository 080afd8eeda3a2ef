"""Run in vLLM's own environment: asks an engine in that process, and writes what it answers as JSON.

Run as `python -m tests.vllm.offline_script MODEL_FOLDER`.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from schemas.errors import ModelFailure
from schemas.geometry import Size
from schemas.observation import ScreenHandle
from stages.models.base import ChatMessage, ChatRequest, Part
from stages.models.images import PixelBudget
from stages.models.vllm_offline import OfflineModel, OfflineSettings

ENGINE = {
    "max_model_len": 2048,
    "dtype": "bfloat16",
    "enforce_eager": True,
    "limit_mm_per_prompt": {"image": 2, "video": 0},
    "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
}
SCHEMA = {"type": "object", "properties": {"correct": {"type": "boolean"}}, "required": ["correct"]}


def main() -> None:
    """Ask, and print."""
    folder = Path(sys.argv[1])
    budget = PixelBudget(factor=28, min_pixels=4 * 28 * 28, max_pixels=64 * 28 * 28)
    model = OfflineModel(OfflineSettings(folder=folder, budget=budget, engine=json.dumps(ENGINE)))
    print(json.dumps(asyncio.run(_answers(model))))


async def _answers(model: OfflineModel) -> dict[str, Any]:
    try:
        plain = _request("judge")
        seen = _request("judge", _picture())
        texts = await asyncio.gather(*(model.complete(plain) for _ in range(8)))
        sampled = await model.complete(replace(plain, temperature=1.0, n=3, seed=4))
        return {
            "version": model.version,
            "texts": [completion.text for completion in texts],
            "tokens": [texts[0].input_tokens, (await model.complete(seen)).input_tokens],
            "samples": [sampled.text, *sampled.others],
            "logprobs": (await model.complete(replace(plain, top_logprobs=2))).logprobs,
            "in_a_form": (await model.complete(replace(seen, answer_schema=json.dumps(SCHEMA), max_tokens=64))).text,
            "too_long": await _refusal(model, _request("far too much to read " * 2048)),
        }
    finally:
        await model.close()


async def _refusal(model: OfflineModel, request: ChatRequest) -> str:
    try:
        await model.complete(request)
    except ModelFailure as failure:
        return str(failure)
    return ""


def _request(*parts: Part) -> ChatRequest:
    return ChatRequest("critic.multimodal", (ChatMessage("user", parts),), max_tokens=12)


def _picture() -> ScreenHandle:
    file = io.BytesIO()
    Image.new("RGB", (280, 140), "teal").save(file, "PNG")
    return ScreenHandle("teal", Size(280, 140), file.getvalue)


if __name__ == "__main__":
    main()
