"""Applications of widgets, as an environment without a browser: pages with menus, lists and forms."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.actions import Action, Click, PressKeys, TypeText
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import make_observation

SIZE = Size(800, 4000)


class Widget(NamedTuple):
    role: str
    text: str
    leads_to: int = -1
    """The page that a press leads to; -1 for none."""
    says: str = ""
    """The text that a press brings up; one with `!` needs a filled field."""


class WidgetFactory(NamedTuple):
    pages: list[list[Widget]]

    async def __call__(self) -> WidgetEnvironment:
        return WidgetEnvironment(self.pages)

    async def close(self) -> None:
        return None


class WidgetEnvironment:
    """Runs an app: presses lead on or bring up a text, fields take text, switches turn."""

    platform = Platform.WEB
    name = "widgets"

    def __init__(self, pages: list[list[Widget]]) -> None:
        self._pages = pages

    async def reset(self, query: Query, seed: int) -> Observation:
        self._page, self._said, self._focus = 0, "", -1
        self._values: dict[tuple[int, int], str] = {}
        return self._observe()

    async def step(self, action: Action) -> Observation:
        parts = self._pages[self._page]
        if isinstance(action, Click) and action.y // 20 < len(parts):
            self._press(action.y // 20, parts[action.y // 20])
        elif isinstance(action, TypeText) and self._focus >= 0:
            self._values[self._page, self._focus] = action.text
        elif isinstance(action, PressKeys) and action.keys == ("enter",) and self._focus >= 0:
            self._said = f"Found {self._values.get((self._page, self._focus), '')}"
        return self._observe()

    def _press(self, at: int, part: Widget) -> None:
        key = self._page, at
        self._focus = at if part.role.endswith("_field") else -1
        if part.role == "checkbox":
            self._values[key] = "" if self._values.get(key) else "on"
        elif part.role == "radio":
            same = [each for each in self._values if each[0] == self._page and self._values[each] == "chosen"]
            self._values |= dict.fromkeys(same, "")
            self._values[key] = "chosen"
        elif part.role in ("button", "link"):
            typed = ", ".join(value for (page, _), value in sorted(self._values.items()) if page == self._page)
            self._said = part.says.replace("{fields}", typed) if typed or "!" not in part.says else "Fill in all fields"
            if part.leads_to >= 0:
                self._page, self._values = part.leads_to, {}

    def _observe(self) -> Observation:
        found = [UIElement("heading", "site", Box(0, 0, 800, 1), ("title",), f"/{'abcdefgh'[self._page]}.html")]
        for at, part in enumerate(self._pages[self._page]):
            value = self._values.get((self._page, at), "")
            is_field = part.role.endswith("_field")
            states: tuple[str, ...] = ("clickable",) if part.role not in ("heading", "text") else ()
            states += ("editable",) if is_field else ("checked",) if value else ()
            box = Box(10, at * 20, 200, at * 20 + 18)
            found.append(UIElement(part.role, part.text, box, states, value if is_field else ""))
        if self._said:
            found.append(UIElement("text", self._said, Box(10, 3900, 200, 3918)))
        return make_observation(b"", SIZE, tuple(found), "site")

    async def score(self) -> float | None:
        return None

    async def close(self) -> None:
        return None
