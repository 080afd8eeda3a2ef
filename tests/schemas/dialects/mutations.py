"""Replies mutated at random: whatever a dialect reads in one must stand in it."""

import ast
import json
import random
import re
from collections.abc import Iterator
from time import perf_counter
from typing import Any, NamedTuple

from tests.schemas.dialects.actions import EXAMPLES
from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.dialects.base import NotExpressible, ParseFailure, Reply
from trajmill.schemas.dialects.families import FAMILIES, Family, family_named
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform

SCREEN = Size(1080, 2397)
_PLATFORMS = (Platform.PHONE, Platform.DESKTOP)
_SNIPPETS = (
    *(
        "<tool_call>",
        "</tool_call>",
        "Action:",
        "Thought:",
        "Conclusion:",
        "<|box_start|>",
        "\\u003c",
        "\ud800",
        "\x00",
    ),
    *(
        "\n",
        "\\",
        "'",
        '"',
        "')",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        "0",
        "9" * 400,
        "-1",
        "1e999",
        "NaN",
        "null",
        "true",
    ),
    *("click", "left_click", "type", "swipe", "scroll", "coordinate", "text", "action", "start_box=", "content="),
    *("é", "true", "9" * 400),
)
_TEXTS = ("a", 'say "it\'s"', "two\nlines", "</tool_call>", "\\n", "é")


_QUOTE = "'"
_CLICKS = (
    *("click", "left_click", "right_click", "middle_click", "double_click", "triple_click"),
    *("left_double", "right_single"),
)
_NAMES = {
    "click": _CLICKS,
    "long_press": ("long_press",),
    "swipe": ("swipe", "scroll"),
    "drag": ("drag",),
    "drag_to": ("left_click_drag",),
    "mouse_move": ("mouse_move",),
    "scroll": ("scroll", "scroll_up", "scroll_down"),
    "hscroll": ("hscroll", "scroll"),
    "type": ("type", "enter"),
    "key": ("key", "hotkey"),
    "system_button": ("system_button", "press_home", "press_back", "back", "home", "menu", "confirm"),
    "open": ("open", "open_app"),
    "wait": ("wait",),
    "interact": ("interact",),
    "answer": ("answer", "finished"),
    "terminate": ("terminate", "finished", "call_user", "done", "give_up"),
}
_EXTENTS = {CoordinateSpace.PER_MILLE: Size(1000, 1000), CoordinateSpace.PER_999: Size(999, 999)}


class Written(NamedTuple):
    """What stands in a call."""

    name: str
    numbers: list[float]
    texts: list[str]
    call: str = ""
    """Of UI-TARS, whole: Python reads some texts otherwise, which models leave unescaped."""


class Tally(NamedTuple):
    """What became of the mutated replies."""

    replies: int
    failures: int
    slowest: float


def run(count: int, seed: int) -> Tally:
    """Parse so many mutated replies, in their own dialect or another; raises when an action was made up."""
    draw = random.Random(seed)
    originals = list(_originals())
    replies, slowest = 0, 0.0
    for _ in range(count):
        family, platform, text = draw.choice(originals)
        if draw.random() < 0.2:
            family, platform = draw.choice(list(FAMILIES.values())), draw.choice(_PLATFORMS)
        text = _mutated(text, draw, originals)
        frame = family.frame(SCREEN)
        start = perf_counter()
        read = family.dialect(platform).parse(text, frame)
        slowest = max(slowest, perf_counter() - start)
        assert isinstance(read, Reply | ParseFailure)
        if isinstance(read, Reply):
            replies += 1
            check_written(read.action, text, frame)
        else:
            assert read.message and "\n" not in read.message
    return Tally(replies, count - replies, slowest)


def check_written(action: Action, text: str, frame: CoordinateFrame) -> None:
    """Fail unless the action stands in the reply, found there by other means than the dialect's."""
    written = _in_words(text) if frame.space is CoordinateSpace.PATCHES else _in_call(text)
    about = (action, text)
    assert written.name in _NAMES[action.kind], about
    for name, value in action.model_dump().items():
        match name:
            case "x" | "y" | "x2" | "y2" if value is not None:
                side = 0 if name in ("x", "x2") else 1
                stored = frame.screen[side] / (_EXTENTS.get(frame.space) or frame.extent)[side]
                assert any(abs(number * stored - value) <= 1 for number in written.numbers), about
            case "keys":
                assert all(any(key in word for word in written.texts) for key in value), about
            case "seconds":
                assert value in written.numbers or value in (1.0, 5.0), about
            case "clicks":
                assert any(abs(number - value) <= 0.5 for number in written.numbers) or abs(value) == 5, about
            case "app" | "text":
                assert (
                    any(
                        _bare(value) == _bare(word).removesuffix("n" * action.model_dump().get("enter", 0))
                        for word in written.texts
                    )
                    or value in written.texts
                    or _inner(value, written)
                ), about


def _inner(value: str, written: Written) -> bool:
    """Whether a text begins behind the quote of an argument."""
    return f"={_QUOTE}{_bare(value)}" in _bare(written.call)


def _bare(text: str) -> str:
    """A text without its escapes."""
    return re.sub("[\"']", _QUOTE, text).translate({ord("\\"): "", ord("\n"): "n", ord("\t"): "t", ord("\r"): "r"})


def _in_call(text: str) -> Written:
    return _in_json(text) if re.search(r"<tool_call>\s*\{", text) and "arguments" in text else _in_python(text)


def _in_words(text: str) -> Written:
    name, *rest = text.split("<do>", 1)[1].split()
    # A place beyond the screen stands for its edge.
    last = family_named("read-aloud").frame(SCREEN).extent
    places = [min(float(number), last[axis == "y"]) for axis, number in re.findall(r"<([xy])(\d+)>", " ".join(rest))]
    return Written(name, places, [" ".join(rest)])


def _in_json(text: str) -> Written:
    start = text.index("{", text.index("<tool_call>"))
    arguments = json.JSONDecoder().raw_decode(text[start:])[0]["arguments"]
    said = list(_leaves(arguments))
    numbers = [float(value) for value in said if isinstance(value, int | float)]
    return Written(arguments["action"], numbers, [value for value in said if isinstance(value, str)])


def _in_python(text: str) -> Written:
    """The arguments of a UI-TARS call as Python reads them; the whole call where it cannot."""
    call = re.split(r"^Action:", text, maxsplit=1, flags=re.MULTILINE)[1].strip()
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", call)]
    try:
        expression = ast.parse(call, mode="eval").body
        assert isinstance(expression, ast.Call)
        texts = [ast.literal_eval(keyword.value) for keyword in expression.keywords]
    except (SyntaxError, ValueError, AssertionError):
        texts = [call]
    return Written(call.partition("(")[0], numbers, texts, call)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _originals() -> Iterator[tuple[Family, Platform, str]]:
    for family in FAMILIES.values():
        frame = family.frame(SCREEN)
        for platform in _PLATFORMS:
            for action in _actions():
                try:
                    reply = Reply("I see a menu.", action, "Opened it.")
                    yield family, platform, family.dialect(platform).render(reply, frame)
                except NotExpressible:
                    continue


def _actions() -> Iterator[Action]:
    yield from EXAMPLES.values()
    for kind in ("type", "answer"):
        for text in _TEXTS:
            yield EXAMPLES[kind].model_copy(update={"text": text})


def _mutated(text: str, draw: random.Random, originals: list[tuple[Family, Platform, str]]) -> str:
    for _ in range(draw.randint(1, 4)):
        at, end = sorted((draw.randint(0, len(text)), draw.randint(0, len(text))))
        end = min(end, at + 12) if draw.random() < 0.8 else end
        match draw.randrange(6):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + draw.choice(_SNIPPETS) + text[at:]
            case 2:
                text = text[:at] + draw.choice(_SNIPPETS) + text[end:]
            case 3:
                text = text[:end] + text[at:end] + text[end:]
            case 4:
                text = text[:at] + chr(draw.randint(32, 126)) + text[at + 1 :]
            case _:
                other = draw.choice(originals)[2]
                text = text[:at] + other[draw.randint(0, len(other)) :]
    return text
