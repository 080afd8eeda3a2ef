"""A little program with menus, a dialog with tabs, and entries that crash or hang, which counts what is pressed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from trajmill.schemas.actions import Action, Click, PressKeys
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.query import PathStep, Platform, Query
from trajmill.stages.queries.pathways.programs import PathwayProgram

PROGRAM = PathwayProgram(
    name="toy",
    title="the toy",
    platform=Platform.DESKTOP,
    start_state="{}",
    selecting=(PathStep(page="toy.start", operation="key", target="", text="ctrl+a"),),
    selection="the whole picture",
)
MENUS = {
    "File": ["Open...", "Quit...", "Print...", "Crash...", "Hang...", "Vanish..."],
    "Edit": ["Copy", "Paste", "Convert"],
    "Convert": ["To Red", "To Blue"],
}
SUBMENUS = {"Convert"}
NEED_SELECTION = {"Copy", "To Red"}
ALWAYS_DISABLED = {"Paste"}
TABS = ["Colours", "Sizes"]


@dataclass
class Toy:
    """The program; `log` survives resets and is shared by all instances of a factory."""

    log: list[str]
    open: list[str] = field(default_factory=list)
    """Menus that are open, or a dialog."""
    tab: str = TABS[0]
    selected: bool = False
    ended: bool = False
    looks_until_shown: int = 0
    """What the program shows after a reset comes so many looks late."""
    late: int = 0
    opens_late: int = 0
    """What a menu shows that was opened before, and a dialog, comes so many looks late."""
    shown: tuple[UIElement, ...] = ()
    platform: Platform = Platform.DESKTOP
    name: str = "toy"

    async def reset(self, query: Query, seed: int) -> Observation:
        self.log.append("reset")
        self.open, self.tab, self.selected, self.ended = [], TABS[0], False, False
        self.late, self.shown = self.looks_until_shown, ()
        return self.look()

    async def step(self, action: Action) -> Observation:
        match action:
            case PressKeys(keys=("escape",)):
                self.open = self.open[:-1]
            case PressKeys(keys=("ctrl", "a")):
                self.selected = True
            case Click(x=x, y=y):
                hit = [e for e in self.elements() if e.bounds.contains(x, y) and e.clickable]
                await self.press(hit[-1].text)
        return self.look()

    async def press(self, text: str) -> None:
        if text == "Open..." or (text in MENUS and text in self.log):
            self.late = self.opens_late
        self.log.append(text)
        if text in MENUS:
            self.open = [*self.open, text] if text in SUBMENUS else [text]
        elif text in TABS:
            self.tab = text
        elif text == "Crash...":
            raise EnvironmentFailure("the toy broke")
        elif text == "Hang...":
            await asyncio.sleep(60)
        elif text == "Vanish...":
            self.ended = True
        elif text == "Open...":
            self.open = ["Open"]

    async def score(self) -> float | None:
        return None

    async def close(self) -> None:
        self.log.append("close")

    def look(self) -> Observation:
        self.shown = tuple(self.elements()) if self.late <= 0 else self.shown
        self.late -= 1
        screen = ScreenHandle(content_id([tuple(e) for e in self.shown]), Size(1280, 720), lambda: b"")
        return Observation(screen, self.shown, "" if self.ended else "toy")

    def elements(self) -> list[UIElement]:
        if self.ended:
            return []
        if self.open == ["Open"]:
            found = [UIElement("heading", "Open", Box(100, 100, 500, 101), ("title",))]
            for left, tab in zip((100, 200), TABS, strict=True):
                states = ("clickable", "selected") if tab == self.tab else ("clickable",)
                found.append(UIElement("tab", tab, Box(left, 120, left + 90, 140), states))
            return found
        found = [UIElement("heading", "Toy", Box(0, 0, 900, 1), ("title",))]
        for number, menu in enumerate(name for name in MENUS if name not in SUBMENUS):
            box = Box(100 * number, 20, 100 * number + 90, 40)
            found.append(UIElement("menu", menu, box, ("clickable",), "", f"toy/menu:{menu}"))
        for depth, menu in enumerate(self.open):
            for number, item in enumerate(MENUS[menu]):
                usable = item not in ALWAYS_DISABLED and (self.selected or item not in NEED_SELECTION)
                role = "menu" if item in SUBMENUS else "menu_item"
                box = Box(300 * depth, 50 + 30 * number, 300 * depth + 200, 75 + 30 * number)
                named = f"toy/{'/'.join(self.open[: depth + 1])}/{role}:{item}"
                found.append(UIElement(role, item, box, ("clickable",) if usable else ("disabled",), "", named))
        return found


@dataclass
class ToyFactory:
    log: list[str] = field(default_factory=list)
    looks_until_shown: int = 0
    opens_late: int = 0
    broken: int = 0
    """So many starts fail."""

    async def __call__(self) -> Toy:
        self.log.append("start")
        if self.log.count("start") <= self.broken:
            raise EnvironmentFailure("there is no toy yet", FailureClass.SETUP)
        return Toy(self.log, looks_until_shown=self.looks_until_shown, opens_late=self.opens_late)

    async def close(self) -> None:
        self.log.append("end")


def by_names(pathways: Sequence[Pathway]) -> dict[str, Pathway]:
    return {" > ".join(step.name for step in pathway.steps): pathway for pathway in pathways}
