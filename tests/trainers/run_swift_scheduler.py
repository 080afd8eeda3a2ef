"""Steps our scheduler as ms-swift does, with a model whose words are written; run by ms-swift's Python."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from swift.infer_engine.protocol import RolloutInferRequest
from swift.rollout.multi_turn import multi_turns

import trajmill.stages.online.swift_scheduler as plugin


async def episode(url: str, replies: list[str], query_id: str = "press") -> dict[str, Any]:
    """The conversation, its number of pictures and what ms-swift takes for the reward."""
    scheduler = multi_turns[plugin.NAME](max_turns=3)
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


async def main(url: str, press: str, done: str) -> list[Any]:
    """An episode that succeeds, and one that reaches ms-swift's limit of turns."""
    return [await episode(url, [press, done]), await episode(url, ["Hm.", press, press])]


if __name__ == "__main__":
    jobs = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(asyncio.run(main(**jobs))))
