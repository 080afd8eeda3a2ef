"""Steps our scheduler as ms-swift does, with a model whose words are written; run by ms-swift's Python."""

import asyncio
from types import SimpleNamespace
from typing import Any

from swift.infer_engine.protocol import RolloutInferRequest
from swift.rollout.multi_turn import multi_turns

import trajmill.stages.online.swift_scheduler  # noqa: F401  # registers itself


async def episode(url: str, replies: list[str], query_id: str = "press") -> dict[str, Any]:
    scheduler = multi_turns["trajmill_gui"](max_turns=3)
    config = {"base_url": url, "reset_kwargs": {"query_id": query_id, "seed": 3}}
    request = RolloutInferRequest(messages=[], data_dict={"env_config": config}, uuid="one")
    await scheduler.on_trajectory_start([request])
    result: dict[str, Any] = {}
    for turn, text in enumerate(replies, 1):
        request.messages.append({"role": "assistant", "content": text})
        choice = SimpleNamespace(message=SimpleNamespace(content=text))
        result = await scheduler.on_turn_end(request, choice, turn)
        if not result["done"]:
            scheduler.step(request, choice, turn)
    return {"messages": request.messages, "images": len(request.images), **result}


async def _main(url: str, press: str, done: str) -> list[Any]:
    return [await episode(url, [press, done]), await episode(url, ["Hm.", press, press])]


def main(**asked: Any) -> Any:
    return asyncio.run(_main(**asked))
