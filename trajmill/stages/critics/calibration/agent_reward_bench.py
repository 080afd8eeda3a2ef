"""Reads trajectories in AgentRewardBench's layout as episodes.

    FOLDER/annotations.csv (or data/annotations.csv)
    FOLDER/cleaned/BENCHMARK/AGENT/EXPERIMENT/TASK.json
    FOLDER/screenshots/BENCHMARK/AGENT/TASK/screenshot_step_N.png

Every step of a file has the screen before its action; the last step may have no action and only show the last screen.
Of a path in a file, the part from `screenshots` on is used; it never leads out of the folder.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Click, MoveMouse, PressKeys, TypeText
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.text import parse_expression, storable
from trajmill.stages.agents.base import Decision
from trajmill.stages.critics.calibration.labelled_set import (
    Label,
    LabelledEpisode,
    LabelledScreens,
    LabelledTrajectory,
    UnreadableError,
    episode_of,
)
from trajmill.stages.models.prompts import refuse_constant

ENVIRONMENT = "agent-reward-bench"
_PLACES = ("annotations.csv", "data/annotations.csv")
_COLUMNS = ("benchmark", "model_name", "task_id", "trajectory_success")
_MEANINGS = {"Successful": True, "Unsuccessful": False, "Unsure": None}


class AgentRewardBench:
    """A folder in its layout; the first annotator's label counts, as in the benchmark's own scores."""

    holds = "cleaned/BENCHMARK/AGENT/EXPERIMENT/TASK.json, their pictures to screenshots"

    def __init__(self, folder: Path) -> None:
        """Read the labels. Raises BadInputError, see `read_labels`."""
        self._folder = folder
        self._labels = read_labels(folder)

    def __iter__(self) -> Iterator[LabelledTrajectory]:
        for label in self._labels:
            yield LabelledTrajectory(label, partial(self._read, label))

    def _read(self, label: Label, screens: LabelledScreens, origin: Origin) -> LabelledEpisode | None:
        path = find_trajectory(self._folder, label)
        return None if path is None else read_trajectory(path, self._folder, label, screens, origin)


def read_labels(folder: Path) -> list[Label]:
    """Read the labels in order, without second opinions. Raises BadInputError for none, or a bad row."""
    path = next((folder / place for place in _PLACES if (folder / place).is_file()), None)
    if path is None:
        raise BadInputError(
            f"{folder}: no labelled set: {' and '.join(_PLACES)} are missing; name the folder that AgentRewardBench's "
            "or CUAVerifierBench's dataset was downloaded to"
        )
    labels: dict[tuple[str, str, str], Label] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            columns = rows.fieldnames or ()
            missing = [column for column in _COLUMNS if column not in columns]
            if missing:
                raise BadInputError(f"{path}:1: column {missing[0]} is missing; there are {', '.join(columns)}")
            for row in rows:
                values, place = [row[column] or "" for column in _COLUMNS], f"{path}:{rows.line_num}"
                if not all(values):
                    raise BadInputError(f"{place}: {_COLUMNS[values.index('')]} is empty")
                benchmark, agent, task_id, success = values
                if success not in _MEANINGS:
                    should = "Successful, Unsuccessful or Unsure"
                    raise BadInputError(f"{place}: trajectory_success is {success[:40]!r}; it should be {should}")
                label = Label(benchmark, agent, task_id, _MEANINGS[success])
                labels.setdefault(label[:3], label)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"{path}: the labels cannot be read: {error}") from None
    if not labels:
        raise BadInputError(f"{path}:1: there is no label in it")
    return list(labels.values())


def find_trajectory(folder: Path, label: Label) -> Path | None:
    """Return the file of a trajectory; None if it is not there. Raises UnreadableError for a name of no file."""
    if "\0" in label.name:
        raise UnreadableError("its name has the character NUL, so it has no file")
    home = folder / "cleaned" / label.benchmark / label.agent
    if not (home / label.task_id).resolve().is_relative_to((folder / "cleaned").resolve()):
        return None
    names = (f"{label.task_id}.json", f"*/{label.task_id}.json")
    return next((path for name in names for path in sorted(home.glob(name))), None)


def read_trajectory(
    path: Path, folder: Path, label: Label, screens: LabelledScreens, origin: Origin
) -> LabelledEpisode:
    """Read a trajectory as an episode without its label, and add its screens to `screens`.

    The reward is that of the benchmark's own check. Raises UnreadableError if the file or a screenshot is unreadable.
    """
    seen: list[Observation] = []
    try:
        found = json.loads(path.read_bytes(), parse_constant=refuse_constant)
        decisions = [_decision(entry, folder, label, screens, seen) for entry in found["steps"]]
        if not decisions:
            raise ValueError("it has no steps")
        return _episode(found, decisions, seen, label, origin)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnreadableError.of_layout(path.name, error) from None


def _decision(
    entry: Mapping[str, Any], folder: Path, label: Label, screens: LabelledScreens, seen: list[Observation]
) -> Decision:
    boxes = read_boxes(entry.get("extra_element_properties") or {})
    tree = read_tree(entry.get("axtree_pruned") or entry.get("axtree") or "", boxes)
    stored = entry["screenshot_path"]
    _, inside, rest = stored.partition("screenshots/")
    path = folder / "screenshots" / rest
    if not inside or not path.resolve().is_relative_to((folder / "screenshots").resolve()):
        raise UnreadableError(f"screenshot path {stored[:80]!r} is not under screenshots/")
    raw = entry["action"] or ""
    seen.append(screens.add(path.name, path.read_bytes, tree, label.benchmark))
    action = read_browser_action(raw, boxes)
    return Decision(storable(entry.get("reasoning") or ""), action, "", raw_response=storable(raw))


def _episode(
    found: Mapping[str, Any], decisions: Sequence[Decision], seen: Sequence[Observation], label: Label, origin: Origin
) -> LabelledEpisode:
    shows_end = len(decisions) > 1 and not decisions[-1].raw_response
    acting, around = (decisions[:-1], seen) if shows_end else (decisions, [*seen, seen[-1]])
    reward = (found.get("summary_info") or {}).get("cum_reward")
    if reward is not None and not math.isfinite(float(reward)):
        raise ValueError(f"reward {float(reward)} is no number")
    fields = {
        "model_version": storable(str(found.get("model") or label.agent)),
        "environment": ENVIRONMENT,
        "status": "finished" if found.get("valid", True) else "failed",
        "reward": None if reward is None else min(1.0, max(0.0, float(reward))),
    }
    return episode_of(label, str(found["goal"]), acting, around, seen, origin, fields)


Boxes = Mapping[str, Box]  # by BrowserGym's id of the element

_NOTCH: Final = 100
_LONGEST: Final = 20_000
"""Most characters of an action; longer ones are not parsed."""
_FARTHEST: Final = 10**7
"""Largest coordinate of an element that is read, in pixels; what lies farther away is not drawn."""
_MOST: Final = 2000
"""Most elements of one screen that are read; long pages have tens of thousands."""


def read_browser_action(text: str, boxes: Boxes) -> Action | None:
    """Return the action of a call; None if it is no known call, or its element is not drawn."""
    try:
        tree = parse_expression(text.strip()[:_LONGEST])
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            return None
        arguments = [ast.literal_eval(argument) for argument in tree.args]
        named = {each.arg: ast.literal_eval(each.value) for each in tree.keywords if each.arg is not None}
        return _READERS[tree.func.id](boxes, *arguments, **named)
    except (SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError, OverflowError):
        return None


def _click(boxes: Boxes, bid: str, button: str = "left", modifiers: Any = (), count: int = 1) -> Action:
    return Click.model_validate({**boxes[bid].center._asdict(), "button": button, "count": count})


_READERS: Final[Mapping[str, Callable[..., Action]]] = {
    "click": _click,
    "dblclick": lambda boxes, bid, button="left", modifiers=(): _click(boxes, bid, button, count=2),
    "focus": lambda boxes, bid: _click(boxes, bid),
    "hover": lambda boxes, bid: MoveMouse.model_validate(boxes[bid].center._asdict()),
    "fill": lambda boxes, bid, value, enable_autocomplete_menu=False: TypeText(text=value, clear=True),
    "clear": lambda boxes, bid: TypeText(text="", clear=True),
    "select_option": lambda boxes, bid, options: TypeText(
        text=options if isinstance(options, str) else ", ".join(options), clear=True
    ),
    "press": lambda boxes, bid, key_comb: PressKeys(keys=tuple(key_comb.split("+"))),
    "keyboard_press": lambda boxes, key: PressKeys(keys=tuple(key.split("+"))),
    "keyboard_type": lambda boxes, text: TypeText(text=text),
    "keyboard_insert_text": lambda boxes, text: TypeText(text=text),
    "scroll": lambda boxes, delta_x, delta_y: actions.Scroll(clicks=round(-delta_y / _NOTCH)),
    "drag_and_drop": lambda boxes, from_bid, to_bid: actions.Drag(
        **boxes[from_bid].center._asdict(), **dict(zip(("x2", "y2"), boxes[to_bid].center, strict=True))
    ),
    "mouse_click": lambda boxes, x, y, button="left": Click(x=round(x), y=round(y), button=button),
    "mouse_move": lambda boxes, x, y: MoveMouse(x=round(x), y=round(y)),
    "goto": lambda boxes, url: actions.OpenApp(app=url),
    "go_back": lambda boxes: actions.SystemButton(button="Back"),
    "go_forward": lambda boxes: PressKeys(keys=("alt", "right")),
    "new_tab": lambda boxes: PressKeys(keys=("ctrl", "t")),
    "tab_close": lambda boxes: PressKeys(keys=("ctrl", "w")),
    "tab_focus": lambda boxes, index: PressKeys(keys=("ctrl", str(index + 1))),
    "noop": lambda boxes, wait_ms=1000: actions.Wait(seconds=wait_ms / 1000),
    "send_msg_to_user": lambda boxes, text: actions.Answer(text=text),
    "report_infeasible": lambda boxes, reason="": actions.Terminate(status="failure"),
}

_LINE: Final = re.compile(
    r"\s*(?:\[(?P<bid>[^\]\s]+)\]\s+)?(?P<role>[A-Za-z]+)\s+"
    r"(?P<name>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(?P<rest>.*)"
)
_VALUE: Final = re.compile(r"\bvalue=(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_ROLES: Final = {
    **{"RootWebArea": "heading", "StaticText": "text", "menuitem": "menu_item", "img": "image"},
    **dict.fromkeys(("textbox", "searchbox", "combobox"), "text_field"),
    **dict.fromkeys(("listitem", "option"), "list_item"),
}
_STATES: Final = ("clickable", "focused", "checked", "selected", "disabled")


def read_boxes(properties: Mapping[str, Any]) -> dict[str, Box]:
    """Return the boxes of the drawn elements, from `extra_element_properties`."""
    boxes: dict[str, Box] = {}
    for bid, found in properties.items():
        bounds = found.get("bbox") if isinstance(found, dict) else None
        if isinstance(bounds, list) and len(bounds) == 4 and all(abs(number) <= _FARTHEST for number in bounds):
            x, y, width, height = (round(number) for number in bounds)
            boxes[bid] = Box(x, y, x + width, y + height)
    return boxes


def read_tree(text: str, boxes: Mapping[str, Box]) -> tuple[UIElement, ...]:
    """Return the elements that have text, in the order of the lines; other lines are left out."""
    elements: list[UIElement] = []
    for found in map(_LINE.match, text.splitlines()):
        if found is None:
            continue
        name, rest, role = _literal(found["name"]), found["rest"], found["role"]
        held = _VALUE.search(rest)
        value = "" if held is None else _literal(held["value"])
        if name or value:
            known, bid = _ROLES.get(role, role.lower()), found["bid"] or ""
            first = ("editable",) if known == "text_field" else ("title",) if role == "RootWebArea" else ()
            states = (state for state in _STATES if re.search(rf"\b{state}\b(?!='?[Ff]alse)", rest))
            elements.append(UIElement(known, name, boxes.get(bid, Box(0, 0, 0, 0)), (*first, *states), value, bid))
        if len(elements) == _MOST:
            break
    return tuple(elements)


def _literal(quoted: str) -> str:
    try:
        return " ".join(str(ast.literal_eval(parse_expression(quoted))).split())
    except (SyntaxError, ValueError):
        return quoted[1:-1]
