"""A policy and a critic behind a real server on loopback; the policy answers as GUI-Owl 1.5 does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from tests.flows.served_judge import opinion
from tests.flows.small_run import small_config
from trajmill.flows.configuration.config import Config, JudgeSection, QueriesSection
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.models.openai_api.spec import OpenAiSpec

_LENGTH: Final = 5
"""Replies after which it ends the episode: as many as the past screens that it is shown, and one more."""
_PHONE: Final = (
    {"action": "click", "coordinate": [0, 0]},
    {"action": "swipe", "coordinate": [500, 781], "coordinate2": [500, 203]},
    {"action": "type", "text": "Größe 42"},
    {"action": "system_button", "button": "Back"},
    {"action": "long_press", "coordinate": [0, 0], "time": 1},
)
_DESKTOP: Final = (
    {"action": "left_click", "coordinate": [0, 0]},
    {"action": "scroll", "coordinate": [500, 500], "pixels": -3},
    {"action": "type", "text": "Größe 42"},
    {"action": "double_click", "coordinate": [0, 0]},
    {"action": "key", "keys": ["ctrl", "a"]},
)


def served_config(root: Path, url: str) -> Config:
    """A small round whose policy and critic are on the server, with groups of four."""
    base = small_config(root, rounds=1)
    return base.model_copy(
        update={
            "queries": QueriesSection(train=6, validation=0, heldout_slots=1, heldout_phrasings=0, heldout_apps=0),
            "rollout": base.rollout.model_copy(update={"episodes_per_round": 12}),
            "guidance": base.guidance.model_copy(update={"enabled": False}),
            # Looking at screenshots is dear, and what is exported does not depend on it.
            "judge": JudgeSection(precision_floor=0.0, channels=(Channel.TEXT,), filter_steps=False),
            "evaluate": base.evaluate.model_copy(update={"episodes": 1, "train_sample": 1}),
            "endpoints": {"tiny": OpenAiSpec(model="tiny", urls=(url,), family="gui-owl-1.5")},
            "models": ModelsSection(policy="tiny", critic=CriticRoles(text=("tiny",))),
        }
    )


def answer(body: dict[str, Any]) -> str:
    """The policy's reply, or a critic's opinion; the same request is always answered alike."""
    draw = crc32(json.dumps([body["messages"][0], body["messages"][1], body.get("seed")]).encode())
    if "response_format" in body:
        said = json.loads(opinion(body))
        if "correct" in said:
            said["correct"] = crc32(str(body["messages"]).encode()) % 3 > 0
        return json.dumps(said)
    return _reply(body["messages"], draw)


def _reply(messages: list[dict[str, Any]], draw: int) -> str:
    asked = next(message for message in messages if message["role"] == "user")["content"]
    text = asked if isinstance(asked, str) else "".join(block.get("text", "") for block in asked)
    done = text.count("\nStep ") + sum(message["role"] == "assistant" for message in messages)
    if draw % 9 == 0:
        return "Action: I do not know.\n<tool_call>\n{}\n</tool_call>"
    phone = "mobile_use" in str(messages[0]["content"])
    arguments: dict[str, Any] = dict((_PHONE if phone else _DESKTOP)[(draw + done) % len(_PHONE)])
    if arguments.get("coordinate") == [0, 0]:
        arguments["coordinate"] = [draw // 7 % 1000, draw // 7000 % 1000]
    if done >= _LENGTH:
        arguments = {"action": "terminate", "status": "success"}
    call = {"name": "mobile_use" if phone else "computer_use", "arguments": arguments}
    return f"Action: Do {arguments['action']}.\n<tool_call>\n{json.dumps(call)}\n</tool_call>"
