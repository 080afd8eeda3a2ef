"""The process of one environment (`python -m ...player BROWSER`), as BrowserGym is synchronous and may hang."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from importlib import import_module
from typing import Any

import browsergym.core.env
import gymnasium
from PIL import Image
from playwright.sync_api import Error

from trajmill.schemas.actions import Action, Answer, Terminate, action_from_json
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.browser.input import playwright_calls
from trajmill.stages.environments.browsergym.environment import PageTree, PlayerRequest, PlayerScreen, read_elements


class _Messages:
    """Replaces BrowserGym's chat, which would open a browser window of its own."""

    def __init__(self, *arguments: object, **named: object) -> None:
        self.messages: list[dict[str, object]] = []

    def add_message(self, role: str, msg: str) -> None:
        if role != "info":
            self.messages.append({"role": role, "timestamp": 0.0, "message": msg})

    def close(self) -> None:
        pass


class Player:
    def __init__(self, browser: str) -> None:
        self._browser = browser
        self._env: Any = None
        self._observation: dict[str, Any] = {}
        self._reward = 0.0
        self._over = False

    def answer(self, request: PlayerRequest) -> dict[str, Any]:
        match request.call:
            case "reset":
                self.reset(request.task, request.seed, json.loads(request.arguments))
            case "step":
                self.step(action_from_json(request.action))
            case _:
                return {"reward": self._reward}
        return self.screen().model_dump(mode="json")

    def reset(self, task: str, seed: int, arguments: dict[str, Any]) -> None:
        self.close()
        import_module(f"browsergym.{task.partition('.')[0]}" if "." in task else "browsergym.core")
        self._env = gymnasium.make(
            f"browsergym/{task}",
            disable_env_checker=True,
            task_kwargs=arguments,
            slow_mo=0,
            pw_chromium_kwargs={"executable_path": self._browser},
            action_mapping=None,
        )
        self._observation, _ = self._env.reset(seed=seed)
        self._reward, self._over = 0.0, False

    def step(self, action: Action) -> None:
        if self._over:
            return
        unwrapped = self._env.unwrapped
        match action:
            case Answer(text=text):
                unwrapped.chat.add_message(role="assistant", msg=text)
            case Terminate(status="failure"):
                unwrapped.chat.add_message(role="infeasible", msg="")
            case _:
                for call in playwright_calls(action):
                    call.on(unwrapped.page)
        # BrowserGym executes its own actions as Python. Given an empty one, it only waits, validates and observes.
        self._observation, reward, self._over, _, _ = self._env.step("")
        self._reward = float(reward)

    def screen(self) -> PlayerScreen:
        pixels = Image.fromarray(self._observation["screenshot"])
        png = io.BytesIO()
        pixels.save(png, "PNG", compress_level=1)
        size = Size(*pixels.size)
        shown = int(self._observation["active_page_index"][0])
        tree = PageTree(
            self._observation["axtree_object"]["nodes"],
            self._observation["extra_element_properties"],
            str(self._observation["focused_element_bid"] or ""),
        )
        elements = read_elements(tree, str(self._observation["open_pages_titles"][shown]), size)
        goal = " ".join(str(self._observation["goal"]).split())
        return PlayerScreen(png=base64.b64encode(png.getvalue()).decode(), size=size, elements=elements, goal=goal)

    def close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()


def main() -> None:
    # What a task prints goes to standard error, so that it does not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    browsergym.core.env.Chat = _Messages
    player = Player(sys.argv[1])
    print('{"error": ""}', file=answers, flush=True)
    for request in sys.stdin:
        try:
            answer = {"error": "", **player.answer(PlayerRequest.model_validate_json(request))}
        except Exception as error:  # whatever a task, a page or Playwright raises
            text = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
            answer = {"error": " ".join(text.split())}
        print(json.dumps(answer), file=answers, flush=True)
    player.close()


if __name__ == "__main__":
    main()
