"""A simulated device and its compiled twin in Chromium, operated in step and compared."""

import json
from collections.abc import Iterable

from trajmill.schemas.actions import Action, Click, Drag, LongPress, PressKeys, Scroll, Swipe, Terminate, drag, hold
from trajmill.schemas.observation import SLIDER_MARK, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import Walker, WalkPosition
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.environments.webapp.environment import WebAppEnvironment

POPUP = 0.2
_MOST_TURNS = 40


class Twins:
    """Both worlds in one state; every method fails when they differ after it."""

    def __init__(self, world: World, web: WebAppEnvironment, query: Query, seed: int, popup: float = POPUP) -> None:
        self.sim = SimulatedEnvironment(world, query.platform, FaultRates(popup=popup, slow=0))
        self.sim_seen = self.sim.reset_now(query, seed)
        self.web = web
        self.query = query
        self.seed = seed

    async def start(self) -> None:
        self.web_seen = await self.web.start(self.query, self.seed)
        await self.compare("start")

    async def walk(self) -> int:
        """Walk the reference path in the simulated world, and press the same in the twin; returns the actions."""
        walker, position = Walker(self.query.path, self.query.platform), WalkPosition()
        for done in range(100):
            action, position = walker.next_action(self.sim_seen, position)
            if isinstance(action, Terminate):
                assert action.status == "success", self.query.path
                return done
            if isinstance(action, Click | LongPress):
                here = [each for each in self.sim_seen.elements or () if each.clickable]
                pressed = next(e.element_id for e in here if e.bounds.contains(action.x, action.y))
                await self.press(pressed, isinstance(action, LongPress) or action.button == "right")
            elif isinstance(action, Swipe | Drag) and (marks := self._marks(action)):
                await self.slide(*marks)
            elif isinstance(action, Swipe | Scroll):
                self.sim_seen = self.sim.step_now(action)
            else:
                await self.do(action)
        raise AssertionError(f"the walk of {self.query.task} does not end")

    def _marks(self, action: Swipe | Drag) -> list[str]:
        """The marks of a slider between which a movement goes."""
        marks = [each for each in self.sim_seen.elements or () if each.role == SLIDER_MARK]
        ends = ((action.x, action.y), (action.x2, action.y2))
        return [each.element_id for end in ends for each in marks if each.bounds.contains(*end)]

    async def slide(self, *marks: str) -> None:
        """Drag a knob between two marks that both worlds show."""
        moves = []
        for elements in (self.sim_seen.elements or (), self.web_seen.visible):
            start, end = (next(each.bounds for each in elements if each.element_id == mark) for mark in marks)
            moves.append(drag(start.center, end.center, touch=self.query.platform is Platform.PHONE))
        await self.do(*moves)

    async def press(self, element_id: str, held: bool = False) -> None:
        """Press an element that the simulated world shows, or hold it."""
        count = 2 if self.query.platform is Platform.DESKTOP and element_id.startswith("launcher/") else 1
        for turn in range(_MOST_TURNS):
            if element_id in {element.element_id for element in self.web_seen.visible}:
                break
            await self._turn_web(down=turn < _MOST_TURNS // 2)
        here, there = (
            next(each for each in elements if each.element_id == element_id and each.clickable).bounds
            for elements in (self.sim_seen.elements or (), self.web_seen.visible)
        )
        touch = self.query.platform is Platform.PHONE
        presses = [Click(x=each.center.x, y=each.center.y, count=count) for each in (here, there)]
        await self.do(*([hold(each.center, touch=touch) for each in (here, there)] if held else presses))

    async def do(self, action: Action, in_web: Action | None = None) -> None:
        self.sim_seen = self.sim.step_now(action)
        self.web_seen = await self.web.act(in_web or action)
        await self.compare(f"{action}")

    async def compare(self, after: str) -> None:
        """All that the simulated world shows is in the twin, in order; where nothing scrolls it is all there is."""
        state = await self.web.device_state()
        apps = {name: memory.model_dump() for name, memory in state.apps}
        there = {"foreground": state.foreground, "focus": state.focus, "menu": state.menu, "apps": apps}
        where = f"{self.query.task} {after}"
        # As JSON, in which true and 1 differ.
        assert json.dumps(there, sort_keys=True, indent=1) == json.dumps(self._memory(), sort_keys=True, indent=1), (
            where
        )
        assert self.web_seen.app == self.sim_seen.app
        assert self.web_seen.visible[0].states == ("title",)
        here, shown = _seen(self.sim_seen.elements or ()), _seen(self.web_seen.everything)
        if not any(element.role == "list" for element in self.sim_seen.elements or ()):
            assert here == shown, where
        rest = iter(shown)
        missing = [one for one in here if one not in rest]
        assert not missing, (where, missing, shown)

    def _memory(self) -> dict[str, object]:
        device = self.sim.device()
        apps = {
            name: {
                "values": list(running.store.values.items()),
                "lists": [(each, records.items) for each, records in running.store.lists.items()],
                "stack": [frame.screen for frame in running.stack],
                "popup": running.popup.title if running.popup else "",
                "sponsored": running.sponsored,
            }
            for name, running in device.running.items()
        }
        return {"foreground": device.foreground, "focus": device.focus, "menu": device.menu, "apps": apps}

    async def _turn_web(self, down: bool) -> None:
        region = next((each for each in self.web_seen.visible if each.role == "list"), None)
        turn: Action = PressKeys(keys=("enter",))
        if region is None:
            keyboard = any(each.role == "keyboard" for each in self.web_seen.visible)
            assert keyboard, "what the simulated world shows is nowhere to be found"
        elif self.query.platform is Platform.DESKTOP:
            turn = Scroll(x=region.bounds.center.x, y=region.bounds.center.y, clicks=-3 if down else 3)
        else:
            (x, y), reach = region.bounds.center, (region.bounds.bottom - region.bounds.top) // (3 if down else -3)
            turn = Swipe(x=x, y=y + reach, x2=x, y2=y - reach)
        self.web_seen = await self.web.act(turn)


def _seen(elements: Iterable[UIElement]) -> list[tuple[object, ...]]:
    """What two worlds of different fonts must agree on: lines break at other places, so white space is left out."""
    return [
        (each.role, "".join(each.text.split()), "".join(each.value.split()), sorted(each.states), each.element_id)
        for each in elements
        if each.role != "list"
    ]
