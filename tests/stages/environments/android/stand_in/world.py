"""AndroidWorld's server (`server/android_server.py` at d9c569f) with three tasks, on a phone of this process."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.http_server import QuietHandler, serving
from tests.stages.environments.android.stand_in.phone import Phone


class TaskEval:
    """The life of `task_evals/task_eval.py`: initialized once, scored, torn down."""

    template = ""

    def __init__(self, params: dict[str, Any]) -> None:
        self.initialized, self.params = False, params

    def initialize_task(self, world: "World") -> None:
        if self.initialized:
            raise RuntimeError(f"{type(self).__name__}.initialize_task() is already called.")
        self.initialized, world.interaction_cache = True, ""

    def is_successful(self, world: "World") -> float:
        if not self.initialized:
            raise RuntimeError("initialize_task() must be called before is_successful().")
        return 1.0

    def tear_down(self, world: "World") -> None:
        self.initialized = False
        world.torn_down.append(type(self).__name__)


class SystemBrightness(TaskEval):
    template = "Set the brightness to {level}."

    def initialize_task(self, world: "World") -> None:
        super().initialize_task(world)
        world.phone.settings["system.screen_brightness"] = "1"

    def is_successful(self, world: "World") -> float:
        shown = world.phone.settings["system.screen_brightness"]
        return super().is_successful(world) * (shown == str(self.params["level"]))


class VolumeQuestion(TaskEval):
    template = "What is the volume?"

    def is_successful(self, world: "World") -> float:
        return super().is_successful(world) * (world.interaction_cache == "7")


class NeedsAnApp(TaskEval):
    template = "Open it."

    def initialize_task(self, world: "World") -> None:
        raise RuntimeError("the app is not installed")


class World:
    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.interaction_cache = ""
        self.torn_down: list[str] = []
        self.suite: dict[str, list[TaskEval]] = {}

    def reinitialize(self, n_task_combinations: str = "2", seed: str = "42") -> dict[str, Any]:
        chance = random.Random(int(seed))
        kinds = (SystemBrightness, VolumeQuestion, NeedsAnApp)
        levels = [[chance.randint(20, 200) for _ in range(int(n_task_combinations))] for _ in kinds]
        self.suite = {
            kind.__name__: [kind({"level": each}) for each in drawn] for kind, drawn in zip(kinds, levels, strict=True)
        }
        return {"status": "success"}

    def execute_action(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body.keys() == {"action_type", "text"} and body["action_type"] == "answer"
        self.interaction_cache = body["text"]
        return {"status": "success"}

    def reset(self, go_home: str) -> dict[str, Any]:
        assert go_home == "true"
        self.interaction_cache = ""
        self.phone.key("HOME")
        return {"status": "success"}


@contextmanager
def world_of(phone: Phone) -> Iterator[tuple[World, str]]:
    world = World(phone)

    class Handler(QuietHandler):
        def reply(self) -> None:
            address = urlsplit(self.path)
            query = dict(parse_qsl(address.query))
            try:
                found = self._found(f"{self.command} {address.path}", query)
            except Exception:  # as uvicorn answers
                self.answer(b"Internal Server Error", 500)
            else:
                self.answer(json.dumps(found).encode())

        def _found(self, path: str, query: dict[str, str]) -> dict[str, Any]:
            task = world.suite[query["task_type"]][int(query["task_idx"])] if "task_type" in query else TaskEval({})
            match path:
                case "GET /suite/reinitialize":
                    return world.reinitialize(**query)
                case "GET /suite/task_list":
                    return {"task_list": list(world.suite)[: int(query["max_index"]) % 100]}
                case "GET /task/goal":
                    return {"goal": task.template.format(**task.params)}
                case "POST /task/initialize":
                    task.initialize_task(world)
                case "POST /reset":
                    return world.reset(**query)
                case "POST /execute_action":
                    return world.execute_action(json.loads(self.body))
                case "GET /task/score":
                    return {"score": task.is_successful(world)}
                case "POST /task/tear_down":
                    task.tear_down(world)
                case _:
                    raise LookupError(path)
            return {"status": "success"}

    with serving(Handler) as url:
        yield world, url
