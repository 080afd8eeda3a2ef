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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from PIL import Image

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Click, MoveMouse, PressKeys, TypeText
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Platform, Split
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.text import parse_expression, storable
from trajmill.stages.agents.base import Decision
from trajmill.stages.critics.calibration.agreement import CallCost, LabelledVotes
from trajmill.stages.critics.judge import judge_each
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.critics.voting import Vote
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.models.prompts import refuse_constant
from trajmill.stages.rollout.episode import recorded_rows

ENVIRONMENT = "agent-reward-bench"
_MADE_BY = "labelled-set-1"
_LONGEST_REASON = 200
_PLACES = ("annotations.csv", "data/annotations.csv")
_COLUMNS = ("benchmark", "model_name", "task_id", "trajectory_success")
_MEANINGS = {"Successful": True, "Unsuccessful": False, "Unsure": None}


class Label(NamedTuple):
    """The label of a trajectory's first annotator, which counts in the benchmark's own scores."""

    benchmark: str
    agent: str
    task_id: str
    passed: bool | None

    @property
    def name(self) -> str:
        return f"{self.benchmark}/{self.agent}/{self.task_id}"


def read_labels(folder: Path) -> list[Label]:
    """Read the labels in order, without second opinions. Raises BadInputError for none, or a bad row."""
    path = next((folder / place for place in _PLACES if (folder / place).is_file()), None)
    if path is None:
        raise BadInputError(
            f"{folder}: no labelled set: {' and '.join(_PLACES)} are missing; name the folder that AgentRewardBench's "
            "dataset was downloaded to"
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


class UnreadableError(Exception):
    """A trajectory of the set cannot be read; the message is one line."""


class FolderScreens(ObservedScreens):
    """The screens of the trajectories in progress; memory holds their trees, but no pixels."""

    def __init__(self) -> None:
        self._screens: dict[str, Observation] = {}
        super().__init__(self._screens)
        self._users: Counter[str] = Counter()

    def add(self, path: Path, elements: tuple[UIElement, ...], app: str) -> Observation:
        """Add a screenshot with its tree; its id is the hash of both. Raises UnreadableError if it is none."""
        try:
            with Image.open(path) as image:
                size = Size(*image.size)
            screen_id = content_id("screen", path.read_bytes().hex(), elements)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise UnreadableError(f"screenshot {path.name} cannot be read: {type(error).__name__}") from None
        found = Observation(ScreenHandle(screen_id, size, path.read_bytes), elements, app)
        self._screens[screen_id] = found
        self._users[screen_id] += 1
        return found

    def drop(self, screen_ids: Iterable[str]) -> None:
        """Remove screens; a screen that was added several times stays until it is dropped as often."""
        self._users.subtract(screen_ids)
        for screen_id in [name for name, users in self._users.items() if users <= 0]:
            del self._users[screen_id], self._screens[screen_id]


class LabelledEpisode(NamedTuple):
    episode: Episode
    screens: tuple[str, ...]
    """Ids of the screens that were added for it, as often as they were added."""


def find_trajectory(folder: Path, label: Label) -> Path | None:
    """Return the file of a trajectory; None if it is not there. Raises UnreadableError for a name of no file."""
    if "\0" in label.name:
        raise UnreadableError("its name has the character NUL, so it has no file")
    home = folder / "cleaned" / label.benchmark / label.agent
    if not (home / label.task_id).resolve().is_relative_to((folder / "cleaned").resolve()):
        return None
    names = (f"{label.task_id}.json", f"*/{label.task_id}.json")
    return next((path for name in names for path in sorted(home.glob(name))), None)


def read_trajectory(path: Path, folder: Path, label: Label, screens: FolderScreens, origin: Origin) -> LabelledEpisode:
    """Read a trajectory as an episode without its label, and add its screens to `screens`.

    The reward is that of the benchmark's own check. Raises UnreadableError if the file or a screenshot is unreadable.
    """
    seen: list[Observation] = []
    try:
        found = json.loads(path.read_bytes(), parse_constant=refuse_constant)
        decisions = [_decision(entry, folder, label, screens, seen) for entry in found["steps"]]
        if not decisions:
            raise ValueError("it has no steps")
        episode = _episode(found, decisions, seen, label, origin)
        return LabelledEpisode(episode, tuple(each.screen.screen_id for each in seen))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise UnreadableError(f"{path.name} is no trajectory of this layout: {reason}") from None


def _decision(
    entry: Mapping[str, Any], folder: Path, label: Label, screens: FolderScreens, seen: list[Observation]
) -> Decision:
    boxes = read_boxes(entry.get("extra_element_properties") or {})
    tree = read_tree(entry.get("axtree_pruned") or entry.get("axtree") or "", boxes)
    stored = entry["screenshot_path"]
    _, inside, rest = stored.partition("screenshots/")
    path = folder / "screenshots" / rest
    if not inside or not path.resolve().is_relative_to((folder / "screenshots").resolve()):
        raise UnreadableError(f"screenshot path {stored[:80]!r} is not under screenshots/")
    raw = entry["action"] or ""
    seen.append(screens.add(path, tree, label.benchmark))
    action = read_browser_action(raw, boxes)
    return Decision(storable(entry.get("reasoning") or ""), action, "", raw_response=storable(raw))


def _episode(
    found: Mapping[str, Any], decisions: Sequence[Decision], seen: Sequence[Observation], label: Label, origin: Origin
) -> Episode:
    shows_end = len(decisions) > 1 and not decisions[-1].raw_response
    acting, around = (decisions[:-1], seen) if shows_end else (decisions, [*seen, seen[-1]])
    reward = (found.get("summary_info") or {}).get("cum_reward")
    if reward is not None and not math.isfinite(float(reward)):
        raise ValueError(f"reward {float(reward)} is no number")
    query = own_query(
        Platform.WEB,
        label.task_id,
        storable(str(found["goal"])),
        "{}",
        origin,
        _MADE_BY,
        apps=(label.benchmark,),
        max_steps=1,
        split=Split.HELDOUT_APPS,
    )
    fields = {
        "query_id": query.query_id,
        "agent": label.agent,
        "model_version": storable(str(found.get("model") or label.agent)),
        "environment": ENVIRONMENT,
        "purpose": Purpose.EVALUATE,
        "status": "finished" if found.get("valid", True) else "failed",
        "reward": None if reward is None else min(1.0, max(0.0, float(reward))),
    }
    trajectory_id = content_id("labelled", label.name, [each.screen.screen_id for each in seen])
    trajectory, steps = recorded_rows(trajectory_id, acting, around, fields | origin.common(made_by=_MADE_BY))
    return Episode(query=query, trajectory=trajectory, steps=steps)


@dataclass
class LabelledVerdicts:
    evidence: list[LabelledVotes] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    absent: int = 0
    """Labelled trajectories without a file; the whole set is large, and a part of it is enough."""
    void: int = 0
    unsure: int = 0


async def judge_labelled(
    folder: Path, labels: Sequence[Label], spec: JudgeSpec, critics: CriticModels, origin: Origin, stage: str
) -> LabelledVerdicts:
    """Judge the labelled trajectories that have files, `spec.concurrency` at a time; files are read when needed."""
    made, screens = LabelledVerdicts(), FolderScreens()
    being_judged: dict[str, tuple[bool, LabelledEpisode]] = {}
    calls: dict[str | None, list[ModelCall]] = defaultdict(list)

    def account(call: ModelCall) -> None:
        made.calls.append(call)
        calls[call.trajectory_id].append(call)

    def episodes() -> Iterator[Episode]:
        for label in labels:
            if label.passed is None:
                made.unsure += 1
                continue
            try:
                path = find_trajectory(folder, label)
                read = read_trajectory(path, folder, label, screens, origin) if path is not None else None
            except UnreadableError as error:
                failure = Failure(
                    stage=stage,
                    input_id=storable(label.name),
                    failure_class=FailureClass.TASK,
                    message=str(error),
                    attempts=1,
                    **origin.common(made_by=_MADE_BY),
                )
                made.failures.append(failure)
                continue
            if read is None:
                made.absent += 1
            elif read.episode.trajectory.status != "finished":
                made.void += 1
                screens.drop(read.screens)
            else:
                being_judged[read.episode.trajectory.trajectory_id] = label.passed, read
                yield read.episode

    async with spec.open(critics, origin, account) as judge:
        async for episode, failure in judge_each(episodes(), judge, screens, origin, spec.concurrency):
            name = episode.trajectory.trajectory_id
            passed, known = being_judged.pop(name)
            screens.drop(known.screens)
            costs = [CallCost.of(vars(call)) for call in calls.pop(name, ())]
            if failure is not None:
                made.failures.append(failure.model_copy(update={"stage": stage}))
            elif episode.judgement is not None:
                found = episode.trajectory_verdicts
                votes = [Vote(v.channel, v.resolution, v.made_by, v.correct, number=v.vote) for v in found]
                made.evidence.append(LabelledVotes(passed, votes, costs))
                made.versions.add(episode.judgement.made_by)
    return made


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
    "RootWebArea": "heading",
    "StaticText": "text",
    "textbox": "text_field",
    "searchbox": "text_field",
    "combobox": "text_field",
    "listitem": "list_item",
    "option": "list_item",
    "menuitem": "menu_item",
    "img": "image",
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
