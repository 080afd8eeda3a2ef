"""AndroidWorld's server (`server/android_server.py` at d9c569f) with three tasks, on a phone of this process."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.http_server import QuietHandler, serving
from tests.stages.environments.android.stand_in.phone import Phone

_TEMPLATES = {
    "SystemBrightness": "Set the brightness to {level}.",
    "VolumeQuestion": "What is the volume?",
    "NeedsAnApp": "Open it.",
}


class World:
    """A suite of tasks, each of which lives as in `task_evals/task_eval.py`: initialized once, scored, torn down."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.interaction_cache = ""
        self.torn_down: list[str] = []
        self.levels: dict[str, list[int]] = {}
        self.initialized: set[tuple[str, int]] = set()

    def answer(self, path: str, asked: dict[str, str], body: bytes) -> dict[str, Any]:
        name, number = asked.get("task_type", ""), int(asked.get("task_idx", 0))
        level = self.levels[name][number] if name else 0
        match path:
            case "GET /suite/reinitialize":
                chance, count = random.Random(int(asked.get("seed", "42"))), int(asked.get("n_task_combinations", "2"))
                self.levels = {each: [chance.randint(20, 200) for _ in range(count)] for each in _TEMPLATES}
                self.initialized.clear()
            case "GET /suite/task_list":
                return {"task_list": list(self.levels)[: int(asked["max_index"]) % 100]}
            case "GET /task/goal":
                return {"goal": _TEMPLATES[name].format(level=level)}
            case "POST /task/initialize" if (name, number) not in self.initialized and name != "NeedsAnApp":
                self.initialized.add((name, number))
                self.interaction_cache = ""
                if name == "SystemBrightness":
                    self.phone.settings["system.screen_brightness"] = "1"
            case "POST /reset" if asked == {"go_home": "true"}:
                self.interaction_cache = ""
                self.phone.key("HOME")
            case "POST /execute_action":
                action = json.loads(body)
                assert action == {"action_type": "answer", "text": action["text"]}
                self.interaction_cache = action["text"]
            case "GET /task/score" if (name, number) in self.initialized:
                is_bright = self.phone.settings["system.screen_brightness"] == str(level)
                return {"score": float(is_bright if name == "SystemBrightness" else self.interaction_cache == "7")}
            case "POST /task/tear_down":
                self.initialized.discard((name, number))
                self.torn_down.append(name)
            case _:
                raise LookupError(path)
        return {"status": "success"}


@contextmanager
def world_of(phone: Phone) -> Iterator[tuple[World, str]]:
    world = World(phone)

    class Handler(QuietHandler):
        def reply(self) -> None:
            address = urlsplit(self.path)
            try:
                found = world.answer(f"{self.command} {address.path}", dict(parse_qsl(address.query)), self.body)
            except Exception:  # as uvicorn answers
                self.answer(b"Internal Server Error", 500)
            else:
                self.answer(json.dumps(found).encode())

    with serving(Handler) as url:
        yield world, url
