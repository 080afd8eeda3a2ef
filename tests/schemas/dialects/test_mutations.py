"""Replies mutated at random: whatever a dialect reads in one must stand in it."""

import random
import re
from collections.abc import Iterator
from time import perf_counter

from tests.schemas.dialects.actions import EXAMPLES
from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import NotExpressible, ParseFailure, Reply
from trajmill.schemas.dialects.families import FAMILIES, Family
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform

SCREEN = Size(1080, 2397)
_PLATFORMS = (Platform.PHONE, Platform.DESKTOP)
_SNIPPETS = (
    *("<tool_call>", "</tool_call>", "Action:", "Thought:", "Conclusion:", "<|box_start|>", "\\u003c", "\ud800"),
    *("\n", "\\", "'", '"', "')", "{", "}", "[", "]", "(", ")", ",", "0", "\x00", "-1", "1e999", "NaN", "null"),
    *("click", "left_click", "type", "swipe", "scroll", "coordinate", "text", "action", "start_box=", "content="),
    *("é", "true", "9" * 400),
)
_TEXTS = ("a", 'say "it\'s"', "two\nlines", "</tool_call>", "\\n", "é")


def test_a_mutated_reply_gives_only_actions_that_it_contains() -> None:
    draw, originals, replies, slowest = random.Random(7), list(_originals()), 0, 0.0
    for _ in range(4_000):
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
    assert 200 < replies < 3_800, "both happen often enough to say something"
    assert slowest < 1.0


def check_written(action: Action, text: str, frame: CoordinateFrame) -> None:
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", text, re.IGNORECASE)]
    for name, value in action.model_dump().items():
        match name:
            case "x" | "y" | "x2" | "y2" if value is not None:
                side = 0 if name in ("x", "x2") else 1
                last, stored = frame.extent[side], frame.screen[side] / frame.extent[side]
                # A place beyond the screen stands for its edge.
                assert any(abs(min(number, last) * stored - value) <= 1 for number in numbers), (action, text)
            case "seconds":
                assert value in numbers or value in (1.0, 5.0), (action, text)
            case "clicks":
                assert any(abs(number - abs(value)) <= 0.5 for number in numbers) or abs(value) == 5, (action, text)
            case "app" | "text" | "keys":
                said = value if name == "keys" else [value]
                assert all(_bare(each) in _bare(text) for each in said), (action, text)


def _bare(text: str) -> str:
    """A text without quotes, spaces and what stands for them in a call."""
    plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    return re.sub(r"[\"'\\\s]|(?<=\\)[ntr]", "", plain)


def _originals() -> Iterator[tuple[Family, Platform, str]]:
    for family in FAMILIES.values():
        frame = family.frame(SCREEN)
        typed = [EXAMPLES[kind].model_copy(update={"text": text}) for kind in ("type", "answer") for text in _TEXTS]
        for platform in _PLATFORMS:
            for action in (*EXAMPLES.values(), *typed):
                try:
                    reply = Reply("I see a menu.", action, "Opened it.")
                    yield family, platform, family.dialect(platform).render(reply, frame)
                except NotExpressible:
                    continue


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
