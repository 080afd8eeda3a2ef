"""Environments for TRL's `GRPOTrainer(environment_factory=...)`: each action is a tool.

TRL makes a tool of every public method, and keeps one growing conversation: the reset gives the task and the first
screen, and each tool call gives the next screen. The model's family decides how positions are written, and the sizes
that screens are resized to, so that the bounds of the model's own processor change nothing.
"""

from __future__ import annotations

import io
import sys
from typing import Any

from PIL import Image

from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.openenv.client import EnvironmentClient, EpisodeAnswer
from trajmill.stages.environments.openenv.wire import WireAction, png_of

Content = list[dict[str, Any]]


class _Screen:
    """A session at a server; the first reset opens it."""

    def __init__(
        self, url: str, family: str = "qwen2.5-vl", token: str = "", policy: str = "trl", max_pixels: int = sys.maxsize
    ) -> None:
        """Connect to nothing yet. `max_pixels` bounds a screen, within the bound of the family."""
        self._client = EnvironmentClient(url, token, policy)
        self._family = family_named(family).within(max_pixels)
        self._screen: Size | None = None

    def reset(self, query_id: str | None = None, seed: int | None = None, **_: Any) -> Content:
        """Begin an episode.

        Args:
            query_id: column of the data set; None chooses a query by the seed.
            seed: column of the data set; None takes the next seed of the server.

        Raises:
            EnvironmentFailure: the server cannot begin an episode.
        """
        return self._shown(self._client.reset(query_id, seed))

    def get_reward(self) -> float | None:
        """End the episode and its session; return the reward, or None for a void episode, which TRL leaves out."""
        try:
            return self._client.finish().reward
        except EnvironmentFailure:
            return None
        finally:
            self._client.close()

    def answer(self, text: str) -> Content:
        """Give the answer to a question, and end the task.

        Args:
            text: The answer.
        """
        return self._do(kind="answer", text=text)

    def finish(self, status: str) -> Content:
        """End the task.

        Args:
            status: `success` if it is done, `failure` if it cannot be done.
        """
        return self._do(kind="terminate", status=status)

    def write(self, text: str) -> Content:
        """Type text into the input that has the focus.

        Args:
            text: What to type.
        """
        return self._do(kind="type", text=text)

    def wait(self, seconds: float) -> Content:
        """Wait for the screen to change.

        Args:
            seconds: How long.
        """
        return self._do(kind="wait", seconds=seconds)

    def _do(self, **action: Any) -> Content:
        return self._shown(self._client.step(WireAction(action=action)))

    def _at(self, x: float, y: float, number: str = "") -> dict[str, int]:
        """The keys of a point of an action, in pixels; `number` is added to their names."""
        assert self._screen is not None
        left, top = self._family.frame(self._screen).to_pixels(x, y)
        return {f"x{number}": left, f"y{number}": top}

    def _shown(self, answer: EpisodeAnswer) -> Content:
        if answer.screen.void:
            raise EnvironmentFailure(answer.screen.error)
        if answer.done:
            return [{"type": "text", "text": "The task has ended."}]
        image = Image.open(io.BytesIO(png_of(answer.screen))).convert("RGB")
        self._screen = Size(*image.size)
        image = image.resize(self._family.budget.fit(self._screen), Image.Resampling.BICUBIC)
        text = answer.screen.error or (answer.screen.instruction if answer.screen.step_index == 0 else "")
        shown: dict[str, Any] = {"type": "image", "image": image}
        return [shown, {"type": "text", "text": text}] if text else [shown]


class TrlPhone(_Screen):
    def click(self, x: int, y: int) -> Content:
        """Tap the screen.

        Args:
            x: Distance from the left edge.
            y: Distance from the top edge.
        """
        return self._do(kind="click", **self._at(x, y))

    def long_press(self, x: int, y: int) -> Content:
        """Keep a finger on the screen.

        Args:
            x: Distance from the left edge.
            y: Distance from the top edge.
        """
        return self._do(kind="long_press", **self._at(x, y))

    def swipe(self, x: int, y: int, x2: int, y2: int) -> Content:
        """Move a finger over the screen; the content follows it.

        Args:
            x: Distance of the start from the left edge.
            y: Distance of the start from the top edge.
            x2: Distance of the end from the left edge.
            y2: Distance of the end from the top edge.
        """
        return self._do(kind="swipe", **self._at(x, y), **self._at(x2, y2, "2"))

    def press_button(self, button: str) -> Content:
        """Press a button of the phone.

        Args:
            button: `Back`, `Home`, `Menu` or `Enter`.
        """
        return self._do(kind="system_button", button=button)

    def open_app(self, app: str) -> Content:
        """Open an app.

        Args:
            app: The name below its icon.
        """
        return self._do(kind="open", app=app)


class TrlDesktop(_Screen):
    """A desktop or a browser."""

    def click(self, x: int, y: int, button: str = "left", count: int = 1) -> Content:
        """Press a mouse button.

        Args:
            x: Distance from the left edge.
            y: Distance from the top edge.
            button: `left`, `middle` or `right`.
            count: 2 for a double click.
        """
        return self._do(kind="click", **self._at(x, y), button=button, count=count)

    def drag(self, x: int, y: int, x2: int, y2: int) -> Content:
        """Hold the left mouse button from one position to another.

        Args:
            x: Distance of the start from the left edge.
            y: Distance of the start from the top edge.
            x2: Distance of the end from the left edge.
            y2: Distance of the end from the top edge.
        """
        return self._do(kind="drag", **self._at(x, y), **self._at(x2, y2, "2"))

    def scroll(self, x: int, y: int, clicks: int) -> Content:
        """Turn the mouse wheel.

        Args:
            x: Distance from the left edge.
            y: Distance from the top edge.
            clicks: How far; positive numbers scroll up.
        """
        return self._do(kind="scroll", **self._at(x, y), clicks=clicks)

    def press_keys(self, keys: list[str]) -> Content:
        """Press keys together.

        Args:
            keys: Their names, e.g. `ctrl` and `s`.
        """
        return self._do(kind="key", keys=keys)
