"""The process in which one BrowserGym environment runs: requests in, looks out, one line of JSON each.

Run as `python -m trajmill.stages.environments.browsergym.player BROWSER`. BrowserGym is synchronous, keeps one
Playwright for its process, and may hang in a call: a process of its own can be waited for without holding up others,
and be killed.
"""

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
from trajmill.stages.environments.browser.page.input import playwright_calls
from trajmill.stages.environments.browsergym.protocol import Look, Request
from trajmill.stages.environments.browsergym.tree import PageTree, read_elements


class _Messages:
    """BrowserGym's chat without the browser window that it would open for it."""

    def __init__(self, *arguments: object, **named: object) -> None:
        self.messages: list[dict[str, object]] = []

    def add_message(self, role: str, msg: str) -> None:
        if role != "info":
            self.messages.append({"role": role, "timestamp": 0.0, "message": msg})

    def close(self) -> None:
        pass


class Player:
    """Plays one task after another in a browser of its own."""

    def __init__(self, browser: str) -> None:
        """Start nothing: the browser comes with the first reset.

        Args:
            browser: path of the Chromium to use.
        """
        self._browser = browser
        self._game: Any = None
        self._seen: dict[str, Any] = {}
        self._reward = 0.0
        self._over = False

    def answer(self, request: Request) -> Look | float:
        """Do what was asked; a look for a reset and a step, the reward for a score."""
        match request.call:
            case "reset":
                self.reset(request.task, request.seed, json.loads(request.arguments))
            case "step":
                self.step(action_from_json(request.action))
            case _:
                return self._reward
        return self.look()

    def reset(self, task: str, seed: int, arguments: dict[str, Any]) -> None:
        """Start a task; the arguments are those of its BrowserGym class."""
        self.close()
        import_module(f"browsergym.{task.partition('.')[0]}" if "." in task else "browsergym.core")
        self._game = gymnasium.make(
            f"browsergym/{task}",
            disable_env_checker=True,
            task_kwargs=arguments,
            slow_mo=0,
            pw_chromium_kwargs={"executable_path": self._browser},
            action_mapping=None,
        )
        self._seen, _ = self._game.reset(seed=seed)
        self._reward, self._over = 0.0, False

    def step(self, action: Action) -> None:
        """Do an action and let the task judge what has become of the page; nothing after it is over."""
        if self._over:
            return
        raw = self._game.unwrapped
        match action:
            case Answer(text=text):
                raw.chat.add_message(role="assistant", msg=text)
            case Terminate(status="failure"):
                raw.chat.add_message(role="infeasible", msg="")
            case _:
                for call in playwright_calls(action):
                    call.on(raw.page)
        # BrowserGym's own actions are text that it executes as Python. It is given an empty one: it then only waits,
        # judges and looks.
        self._seen, reward, self._over, _, _ = self._game.step("")
        self._reward = float(reward)

    def look(self) -> Look:
        """What the page shows."""
        pixels = Image.fromarray(self._seen["screenshot"])
        png = io.BytesIO()
        pixels.save(png, "PNG", compress_level=1)
        size = Size(*pixels.size)
        shown = int(self._seen["active_page_index"][0])
        tree = PageTree(
            self._seen["axtree_object"]["nodes"],
            self._seen["extra_element_properties"],
            str(self._seen["focused_element_bid"] or ""),
        )
        elements = read_elements(tree, str(self._seen["open_pages_titles"][shown]), size)
        goal = " ".join(str(self._seen["goal"]).split())
        return Look(png=base64.b64encode(png.getvalue()).decode(), size=size, elements=elements, goal=goal)

    def close(self) -> None:
        """Close the browser."""
        game, self._game = self._game, None
        if game is not None:
            game.close()


def main() -> None:
    """Answer requests until standard input closes."""
    # What a task prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    browsergym.core.env.Chat = _Messages
    player = Player(sys.argv[1])
    for line in sys.stdin:
        try:
            said = player.answer(Request.model_validate_json(line))
            words = said.model_dump_json() if isinstance(said, Look) else json.dumps({"reward": said})
        except Exception as error:  # whatever a task, a page or Playwright raises
            text = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
            words = json.dumps({"error": " ".join(text.split())})
        print(words, file=answers, flush=True)
    player.close()


if __name__ == "__main__":
    main()
