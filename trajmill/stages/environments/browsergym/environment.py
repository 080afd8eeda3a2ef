"""A BrowserGym task as an environment; the task's own validation is the programmatic check."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from trajmill.schemas.actions import Action, action_to_json
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.base import Belongings, make_observation, refuse_without
from trajmill.stages.environments.browser.launch import EXECUTABLE
from trajmill.stages.environments.miniwob.pages import pages_folder
from trajmill.stages.environments.pool.other_python import OtherPython
from trajmill.stages.environments.tasks import ImportedQueries, ask_at_seeds, joined, own_query, read_part

_SECONDS_PER_CALL = 600.0
_PLAYER = "trajmill.stages.environments.browsergym.player"
_MAKER = "browsergym"


class BrowserGymStart(Record):
    task: str
    seed: int
    arguments: dict[str, Any] = {}
    """Arguments of its class, e.g. `{"start_url": ...}` for `openended`."""


class BrowserGymEnvironment:
    """A player process; `Query.start_state` is a `BrowserGymStart`, the check is the task's own."""

    platform = Platform.WEB
    name = "browsergym"

    def __init__(self, player: OtherPython, defaults: Mapping[str, Mapping[str, object]]) -> None:
        """Use a running player; `defaults` are arguments of tasks by family, the first part of their name."""
        self._player = player
        self._defaults = defaults
        self._task = ""

    async def reset(self, query: Query, seed: int) -> Observation:
        start = read_part(BrowserGymStart.model_validate_json, query.start_state, f"start state of {query.task}")
        return self._observation(await self.start(start))

    async def start(self, start: BrowserGymStart) -> PlayerScreen:
        self._task = start.task
        arguments = {**self._defaults.get(start.task.partition(".")[0], {}), **start.arguments}
        request = PlayerRequest(call="reset", task=start.task, seed=start.seed, arguments=json.dumps(arguments))
        try:
            return await self._request_screen(request)
        except EnvironmentFailure as error:
            raise EnvironmentFailure(str(error), FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        return self._observation(await self._request_screen(PlayerRequest(call="step", action=action_to_json(action))))

    async def score(self) -> float | None:
        return float((await self._ask(PlayerRequest(call="score")))["reward"])

    async def close(self) -> None:
        await self._player.close()

    async def healthy(self) -> bool:
        return self._player.is_alive

    def belongings(self) -> Belongings:
        return self._player.belongings()

    async def _request_screen(self, request: PlayerRequest) -> PlayerScreen:
        return PlayerScreen.model_validate(await self._ask(request))

    async def _ask(self, request: PlayerRequest) -> dict[str, Any]:
        return await self._player.ask(request.model_dump(), _SECONDS_PER_CALL)

    def _observation(self, screen: PlayerScreen) -> Observation:
        return make_observation(base64.b64decode(screen.png), screen.size, screen.elements, self._task)


class BrowserGymFactory:
    async def __call__(self) -> BrowserGymEnvironment:
        """Start a player; raises EnvironmentFailure (`setup`) if BrowserGym or Chromium is not installed."""
        refuse_without("browsergym", "browsergym")
        browser = shutil.which(EXECUTABLE)
        if browser is None:
            raise EnvironmentFailure(f"{EXECUTABLE} is not installed; run `make system-deps`", FailureClass.SETUP)
        # Tasks find their sites in environment variables, such as those of WebArena.
        own = {name: value for name, value in os.environ.items() if name not in ("HOME", "TMPDIR")}
        script = ["-m", _PLAYER, browser]
        player = await OtherPython.start("BrowserGym", Path(sys.executable), script, "reinstall trajmill", own)
        # Tasks of MiniWoB++ use the pages of the `miniwob` wheel, if it is installed.
        found = find_spec("miniwob") is not None
        defaults = {"miniwob": {"base_url": f"{pages_folder().as_uri()}/"}} if found else {}
        return BrowserGymEnvironment(player, defaults)

    async def close(self) -> None: ...


async def import_tasks(tasks: Sequence[str], splits: Sequence[Split], run_seed: int, origin: Origin) -> ImportedQueries:
    async def ask(environment: BrowserGymEnvironment, task: str, seed: int) -> Query:
        start = BrowserGymStart(task=task, seed=seed)
        instruction = (await environment.start(start)).goal
        described = {"pages": (task,), "page_descriptions": ("A BrowserGym task.",), "phrasing": _MAKER}
        return own_query(Platform.WEB, task, instruction, start.model_dump_json(), origin, _MAKER, **described)

    asked: list[ImportedQueries] = []
    for task in tasks:
        environment = await BrowserGymFactory()()
        try:
            at_seed = partial(ask, environment, task)
            asked.append(await ask_at_seeds(at_seed, task, splits, run_seed, origin, _MAKER))
        finally:
            await environment.close()
    return joined(asked)


_SAME = ("button", "link", "checkbox", "radio", "switch", "tab", "slider", "image", "heading", "dialog")
_OTHERS = {"combobox": "combo_box", "listbox": "list", "menuitem": "menu_item", "img": "image", "alertdialog": "dialog"}
_ROLES = {
    **{role: role for role in _SAME},
    **_OTHERS,
    **dict.fromkeys(("option", "listitem"), "list_item"),
    **dict.fromkeys(("textbox", "spinbutton"), "text_field"),
    "searchbox": "search_field",
}
_PRESSED = ("button", "link", "combo_box", "list_item", "checkbox", "radio", "switch", "tab", "menu_item", "slider")
_EDITED = ("text_field", "search_field")
_LEAST_VISIBLE = 0.5
_LEAST_PIXELS = 2
_LONGEST_TEXT = 200


class PlayerRequest(Record):
    call: Literal["reset", "step", "score"]
    task: str = ""
    seed: int = 0
    arguments: str = "{}"
    action: str = "{}"


class PlayerScreen(Record):
    png: str
    size: Size
    elements: tuple[UIElement, ...]
    goal: str


class PageTree(NamedTuple):
    """The parts of BrowserGym's observation that describe the elements of a page."""

    nodes: list[dict[str, Any]]
    """`axtree_object["nodes"]`: the nodes of all frames, in the layout of the Chrome DevTools protocol."""
    properties: Mapping[str, Mapping[str, Any]]
    """`extra_element_properties`: by element, its box in pixels of the screenshot, visibility, clickability."""
    focused: str


def read_elements(tree: PageTree, title: str, screen: Size) -> tuple[UIElement, ...]:
    """The visible elements of a page in reading order; the first is a heading with the page's title."""
    by_id = {node["nodeId"]: node for node in tree.nodes}
    elements: list[UIElement] = []
    shown: set[str] = set()
    for node in tree.nodes:
        role = str(_value(node, "role"))
        owner = _owner(node, by_id) if role == "StaticText" else str(node.get("browsergym_id", ""))
        kind = "text" if role == "StaticText" else _ROLES.get(role, "text")
        box = _box(tree.properties.get(owner), screen)
        text = " ".join(str(_value(node, "name")).split())[:_LONGEST_TEXT]
        if box is None or owner in shown or (kind == "text" and not text):
            continue
        shown.add(owner)
        states = tuple(_states(node, kind, bool(tree.properties[owner].get("clickable")), owner == tree.focused))
        value = str(_value(node, "value")) if kind in (*_EDITED, "combo_box", "slider") else ""
        elements.append(UIElement(kind, text, box, states, value, owner))
    heading = UIElement("heading", title, Box(0, 0, screen.width, 1), ("title",))
    return (heading, *sorted(elements, key=lambda element: (element.bounds.top, element.bounds.left)))


def _owner(node: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> str:
    """The id of the nearest element around a text, which has no box of its own."""
    seen: Mapping[str, Any] | None = node
    while seen is not None and "browsergym_id" not in seen:
        seen = by_id.get(seen.get("parentId", ""))
    return str(seen["browsergym_id"]) if seen is not None else ""


def _box(properties: Mapping[str, Any] | None, screen: Size) -> Box | None:
    if properties is None or not properties.get("bbox") or (properties.get("visibility") or 0.0) < _LEAST_VISIBLE:
        return None
    left, top, width, height = properties["bbox"]
    box = Box(round(left), round(top), round(left + width), round(top + height)).within(Box(0, 0, *screen))
    return box if box.right - box.left >= _LEAST_PIXELS and box.bottom - box.top >= _LEAST_PIXELS else None


def _states(node: Mapping[str, Any], role: str, clickable: bool, focused: bool) -> Iterable[str]:
    properties = {each["name"]: each.get("value", {}).get("value") for each in node.get("properties", ())}
    if clickable or role in (*_PRESSED, *_EDITED):
        yield "clickable"
    if properties.get("checked") in (True, "true"):
        yield "checked"
    if properties.get("selected") is True:
        yield "selected"
    if focused:
        yield "focused"
    if properties.get("disabled") is True:
        yield "disabled"
    if role in _EDITED:
        yield "editable"


def _value(node: Mapping[str, Any], name: str) -> object:
    return node.get(name, {}).get("value", "")
