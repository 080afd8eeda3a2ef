"""AgentNet (OpenCUA): JSON lines of desktop trajectories, and pictures in a folder beside them.

The set is `xlangai/AgentNet` of the Hugging Face hub with its archives of pictures unpacked. A step's `value` has the
code of its action and, once the set has been augmented, thought, action and reflection.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from trajmill.schemas import actions
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.text import parse_python
from trajmill.stages.importing import base

_FACTS = "meta_data"


class AgentNetLayout(base.LayoutSpec):
    """Human demonstrations on desktops."""

    expected: ClassVar[str] = "NAME.jsonl, and its pictures in the folder or in one below it"
    kind: Literal["agentnet"] = "agentnet"
    """Desktops, with thoughts."""

    def lists(self, folder: Path) -> Sequence[Path]:
        return sorted(file for file in folder.glob("*.jsonl") if not file.name.startswith(_FACTS))

    def read(self, file: Path, folder: Path) -> Iterator[base.ReadRecording]:
        places = ["", *sorted(f"{path.name}/" for path in folder.iterdir() if path.is_dir())]
        for number, line in enumerate(base.lines_of(file), 1):
            yield base.read_recording(f"{file.name}:{number}", len(line), partial(_recording, line, folder, places))


def _recording(text: bytes, folder: Path, places: Sequence[str]) -> base.Recording:
    found = base.parse_json(text)
    steps = []
    for entry in found["traj"]:
        name, value = str(entry["image"]), entry["value"]
        screen = base.read_screen(base.within(folder, *(f"{place}{name}" for place in places)), name)
        code, thought = str(value["code"]), str(value.get("thought") or "")
        # Code with several actions gives several steps on the same screen.
        for action in read_code(code, Size(screen.width, screen.height)) or (None,):
            steps.append(base.RecordedStep(screen, action, code, thought, str(value.get("action") or "")))
    return base.Recording(
        name=str(found["task_id"]),
        platform=Platform.DESKTOP,
        instruction=str(found["instruction"]),
        steps=tuple(steps),
        task=str(found.get("domain") or ""),
    )


_LONGEST: Final = 20_000
"""Most characters of an action; longer ones are not parsed."""
_CLICKS: Final[Mapping[str, tuple[int, str]]] = {
    "leftClick": (1, "left"),
    "rightClick": (1, "right"),
    "middleClick": (1, "middle"),
    "doubleClick": (2, "left"),
    "tripleClick": (3, "left"),
}
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "click": ("x", "y", "clicks", "button"),
    **dict.fromkeys((*_CLICKS, "moveTo", "dragTo"), ("x", "y")),
    **dict.fromkeys(("scroll", "vscroll", "hscroll"), ("clicks", "x", "y")),
    **dict.fromkeys(("write", "typewrite"), ("message",)),
    "press": ("keys", "presses"),
    **dict.fromkeys(("wait", "sleep"), ("seconds",)),
    "terminate": ("status",),
    "answer": ("answer",),
}
"""Names of the positional arguments of each call."""


def read_code(code: str, screen: Size) -> tuple[actions.Action, ...]:
    """Return the actions of calls of `pyautogui` and `computer`; empty if a statement is no known call.

    Positions up to 1 are shares of the screen, larger ones pixels.
    """
    found: list[actions.Action] = []
    try:
        for statement in parse_python(code[:_LONGEST]).body:
            match statement:
                case ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name(), attr=name), args=args, keywords=keywords)):
                    values = [ast.literal_eval(each) for each in args]
                    named = {each.arg: ast.literal_eval(each.value) for each in keywords if each.arg is not None}
                    action = _action(name, values, named, screen)
                case _:
                    return ()
            if isinstance(action, actions.DragTo) and found and isinstance(start := found[-1], actions.MoveMouse):
                # A move and the drag after it are one action.
                found[-1] = actions.Drag(x=start.x, y=start.y, x2=action.x, y2=action.y)
            else:
                found.append(action)
    except (SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError, OverflowError):
        return ()
    return tuple(found)


def _action(name: str, values: list[Any], named: dict[str, Any], screen: Size) -> actions.Action:
    if name == "hotkey":
        keys = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        return actions.PressKeys.model_validate({"keys": tuple(keys)})
    names = _PARAMETERS[name]
    if len(values) > len(names) or not named.keys().isdisjoint(names[: len(values)]):
        raise TypeError(f"{name} has other arguments")
    given = dict(zip(names, values, strict=False)) | named
    if name in _CLICKS:
        given["clicks"], given["button"] = _CLICKS[name]
    match name:
        case "moveTo":
            return actions.MoveMouse(**_position(given, screen))
        case "dragTo":
            return actions.DragTo(**_position(given, screen))
        case "scroll" | "vscroll" | "hscroll":
            scroll = actions.HorizontalScroll if name == "hscroll" else actions.Scroll
            place = {} if given.get("x") is None or given.get("y") is None else _position(given, screen)
            return scroll(clicks=max(-1000, min(1000, round(given["clicks"]))), **place)
        case "write" | "typewrite":
            return actions.TypeText(text=given["message"])
        case "press":
            pressed = [given["keys"]] if isinstance(given["keys"], str) else given["keys"]
            return actions.PressKeys(keys=tuple(pressed * max(1, min(int(given.get("presses", 1)), 100))))
        case "wait" | "sleep":
            return actions.Wait(seconds=float(given.get("seconds", 1.0)))
        case "terminate":
            return actions.Terminate(status=given.get("status", "success"))
        case "answer":
            return actions.Answer(text=given["answer"])
        case _:
            count, button = given.get("clicks", 1), given.get("button", "left")
            return actions.Click.model_validate({**_position(given, screen), "count": count, "button": button})


def _position(given: Mapping[str, Any], screen: Size) -> dict[str, int]:
    x, y = given["x"], given["y"]
    wide, high = screen if 0 <= x <= 1 and 0 <= y <= 1 else (1, 1)
    return {"x": min(max(round(x * wide), 0), screen.width - 1), "y": min(max(round(y * high), 0), screen.height - 1)}
