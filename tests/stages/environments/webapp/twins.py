"""A simulated device and its compiled twin in Chromium, operated in step and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trajmill.schemas.actions import Action, Click, PressKeys, Scroll, Swipe, SystemButton, Terminate
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import make_observation
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.layout.profile import metrics_of
from trajmill.stages.environments.simulated.reference_path import Move, Position, Walker
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.environments.webapp.environment import Screenful, WebAppEnvironment

POPUP = 0.2
_MOST_TURNS = 40

Seen = tuple[str, str, str, tuple[str, ...], str]


class Twins:
    """Both worlds in one state; every method fails when they differ after it."""

    def __init__(self, world: World, web: WebAppEnvironment, query: Query, seed: int, popup: float = POPUP) -> None:
        self.sim = SimulatedEnvironment(world, query.platform, FaultRates(popup=popup))
        self.sim_seen = self.sim.reset_now(query, seed)
        self.web = web
        self.query = query
        self.seed = seed

    async def start(self) -> None:
        self.web_seen = await self.web.start(self.query, self.seed)
        await self.compare("start")

    async def walk(self) -> list[tuple[str, str]]:
        """Walk the reference path in both; returns what was pressed on which page."""
        walker = Walker(self.query.path, self.query.platform)
        position, done = Position(), list[tuple[str, str]]()
        for _ in range(100):
            in_sim = await self._next(walker, position, web=False)
            in_web = await self._next(walker, position, web=True)
            page, target = _pressed(self.sim_seen.elements or (), in_sim.action)
            assert (page, target) == _pressed(self.web_seen.visible, in_web.action), (self.query.task, in_sim, in_web)
            assert in_sim.position.step == in_web.position.step
            if isinstance(in_sim.action, Terminate):
                assert in_sim.action == in_web.action == Terminate(status="success"), self.query.path
                return done
            done.append((page, target))
            position = in_sim.position
            await self.do(in_sim.action, in_web.action)
        raise AssertionError(f"the walk of {self.query.task} does not end")

    async def press(self, element_id: str) -> None:
        """Press an element that the simulated world shows."""
        count = 2 if self.query.platform is Platform.DESKTOP and element_id.startswith("launcher/") else 1
        for turn in range(_MOST_TURNS):
            if element_id in {element.element_id for element in self.web_seen.visible}:
                break
            await self._turn_web(down=turn < _MOST_TURNS // 2)
        here = _click(self.sim_seen.elements or (), element_id, count)
        await self.do(here, _click(self.web_seen.visible, element_id, count))

    async def do(self, action: Action, in_web: Action | None = None) -> None:
        self.sim_seen = self.sim.step_now(action)
        self.web_seen = await self.web.act(in_web or action)
        await self.compare(f"{action}")

    async def compare(self, after: str) -> None:
        state = await self.web.device_state()
        there = {
            "foreground": state.foreground,
            "focus": state.focus,
            "menu": state.menu,
            "apps": {name: memory.model_dump() for name, memory in state.apps},
        }
        assert _canonical(there) == _canonical(_memory(self.sim)), (self.query.task, after)
        assert self.web_seen.app == self.sim_seen.app
        compare_trees(self.sim_seen, self.web_seen, f"{self.query.task} {after}")

    async def _next(self, walker: Walker, position: Position, web: bool) -> Move:
        """The next action in one world that is more than looking for the place of it."""
        for _ in range(_MOST_TURNS):
            seen = pictureless(self.web_seen, self.query.platform) if web else self.sim_seen
            move = walker.next_action(seen, position)
            if not isinstance(move.action, Swipe | Scroll) and move.action != SystemButton(button="Enter"):
                return move
            position = move.position
            if web:
                self.web_seen = await self.web.act(move.action)
            else:
                self.sim_seen = self.sim.step_now(move.action)
        raise AssertionError(f"{self.query.task}: nothing comes of turning the page for {walker.path[position.step]}")

    async def _turn_web(self, down: bool) -> None:
        region = next((each for each in self.web_seen.visible if each.role == "list"), None)
        keyboard = any(each.role == "keyboard" for each in self.web_seen.visible)
        assert region or keyboard, "what the simulated world shows is nowhere to be found"
        if region is None:
            self.web_seen = await self.web.act(PressKeys(keys=("enter",)))
            return
        (x, y), reach = region.bounds.center, (region.bounds.bottom - region.bounds.top) // 3
        turn: Action = (
            Swipe(x=x, y=y + reach, x2=x, y2=y - reach) if down else Swipe(x=x, y=y - reach, x2=x, y2=y + reach)
        )
        if self.query.platform is Platform.DESKTOP:
            turn = Scroll(x=x, y=y, clicks=-3 if down else 3)
        self.web_seen = await self.web.act(turn)


def pictureless(seen: Screenful, platform: Platform) -> Observation:
    return make_observation(b"", metrics_of(platform, 1.0).size, seen.visible, seen.app)


def compare_trees(sim: Observation, web: Screenful, where: str) -> None:
    """All that the simulated world shows is in the twin, in that order; where nothing scrolls there is nothing else."""
    here, there = _seen(sim.elements or ()), _seen(web.everything)
    assert web.visible[0].states == ("title",)
    if not any(element.role == "list" for element in sim.elements or ()):
        assert here == there, where
        return
    rest = iter(there)
    missing = [one for one in here if one not in rest]
    assert not missing, (where, missing, there)


def _seen(elements: Iterable[UIElement]) -> list[Seen]:
    """What two worlds of different fonts must agree on: lines break at other places, so white space is left out."""
    return [
        (
            each.role,
            "".join(each.text.split()),
            "".join(each.value.split()),
            tuple(sorted(each.states)),
            each.element_id,
        )
        for each in elements
        if each.role != "list"
    ]


class _Remembered(NamedTuple):
    values: list[tuple[str, object]]
    lists: list[tuple[str, object]]
    stack: list[str]
    popup: str
    sponsored: bool


def _memory(sim: SimulatedEnvironment) -> dict[str, object]:
    device = sim.device()
    apps = {
        name: _Remembered(
            list(running.store.values.items()),
            [(each, records.items) for each, records in running.store.lists.items()],
            [frame.screen for frame in running.stack],
            running.popup.title if running.popup else "",
            running.sponsored,
        )._asdict()
        for name, running in device.running.items()
    }
    return {"foreground": device.foreground, "focus": device.focus, "menu": device.menu, "apps": apps}


def _canonical(state: object) -> str:
    """As JSON, in which true and 1 differ."""
    return json.dumps(state, sort_keys=True, indent=1)


def _pressed(elements: Sequence[UIElement], action: Action) -> tuple[str, str]:
    """The page, and the element that an action presses, or what else it does."""
    page = elements[0].element_id.removesuffix("/title")
    if not isinstance(action, Click):
        return page, repr(action)
    named = [each for each in elements if each.element_id and each.bounds.contains(action.x, action.y)]
    return page, named[-1].element_id if named else ""


def _click(elements: Sequence[UIElement], element_id: str, count: int) -> Click:
    found = next(each for each in elements if each.element_id == element_id and each.clickable)
    x, y = found.bounds.center
    return Click(x=x, y=y, count=count)
