"""The texts that the embedded policy reads and writes: words and conclusions of steps."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[^\W_]+(?:[.:'’@/-][^\W_]+)*|[+−-]")
_COUNT = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
_NUMBERS = {word: str(number) for number, word in enumerate(_COUNT.split())}
_BARE = str.maketrans("", "", "'’")
_COMMON = """a an the to of on in at for from with and or me my i it its is be by up this that then please would like
want could can you your into"""
STOP_WORDS = frozenset(_COMMON.split())
STOP_WEIGHT = 0.1
PADDING = 0
"""The id that stands for no word."""
WORD_BUCKETS = 4096
PIECE_BUCKETS = 4096
MAX_PIECES = 12
"""Most buckets of one word: one for the word and one for each letter trigram."""


class Token(NamedTuple):
    normal: str
    start: int
    end: int


@lru_cache(maxsize=8192)
def tokens(text: str) -> tuple[Token, ...]:
    return tuple([Token(normal_form(match[0]), match.start(), match.end()) for match in _WORD.finditer(text)])


def normal_form(word: str) -> str:
    """Lower case, number words as digits, common English endings cut, so that `orders` equals `ordered`."""
    word = word.casefold()
    if word in _NUMBERS:
        return _NUMBERS[word]
    word = word.removesuffix("'s").removesuffix("’s").translate(_BARE).replace("-", "") or word
    if len(word) < 4 or not word.isalpha():
        return word
    for ending, least in (("ing", 6), ("ed", 5), ("s", 4)):
        if len(word) >= least and word.endswith(ending) and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    if word.endswith("ie"):
        return word[:-2] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@dataclass(slots=True)
class Lexicon:
    """Gives each normal form a small id, from 1 on in order of appearance, and its rows of the embedding table.

    Ids are valid only within one lexicon, so results may depend only on whether ids are equal.
    """

    ids: dict[str, int] = field(default_factory=dict)
    buckets: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    """By id, the rows of the embedding table whose mean is the word's vector; none for `PADDING`."""
    weights: list[float] = field(default_factory=lambda: [0.0])
    """By id, the weight of a word that two texts share."""
    codes: list[int] = field(default_factory=lambda: [0])
    """By id, a number for the word that is equal in every lexicon."""
    texts: dict[str, NDArray[np.int32]] = field(default_factory=dict)

    def ids_of(self, text: str) -> NDArray[np.int32]:
        """Return the ids of the words of a text; the array is shared by all that ask for the same text."""
        known = self.texts.get(text)
        if known is not None:
            return known
        for normal, _, _ in tokens(text):
            if normal not in self.ids:
                self.ids[normal] = len(self.buckets)
                code, framed = code_of(normal), f"^{normal}$"
                pieces = [framed[at : at + 3] for at in range(len(normal) if len(normal) > 2 else 0)][: MAX_PIECES - 1]
                of_pieces = (WORD_BUCKETS + (code_of(piece) - 1) % PIECE_BUCKETS for piece in pieces)
                self.buckets.append(((code - 1) % WORD_BUCKETS, *of_pieces))
                self.codes.append(code)
                self.weights.append(STOP_WEIGHT if normal in STOP_WORDS else 1.0)
        self.texts[text] = np.array([self.ids[normal] for normal, _, _ in tokens(text)], np.int32)
        return self.texts[text]


def code_of(text: str) -> int:
    """Hash a text to 1..2**30; 0 for an empty one."""
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=4).digest()
    return int.from_bytes(digest, "little") % 2**30 + 1 if text else 0


_CONCLUSION = re.compile(
    r'(?P<verb>[\w-]+)(?: down| up| to| for the home screen)?(?: "(?P<target>[^"]*)")?'
    r'(?: (?:for|beside|into) "(?P<field>[^"]*)")?(?: (?:on|from) "(?P<title>[^"]*)")?'
    r'(?:(?:, noting|\. Noted) (?P<notes>"[^"]*"(?:, "[^"]*")*))?\.'  # Rows of earlier versions have "Noted".
)
_QUOTED = re.compile(r'"([^"]*)"')
MOUSE_VERBS = {"Tapped": "Clicked", "Held": "Right-clicked"}
"""What the verbs of conclusions are called on a desktop."""
_VERBS = {mouse: finger for finger, mouse in MOUSE_VERBS.items()}


class Conclusion(NamedTuple):
    verb: str
    """`Opened`, `Tapped`, `Typed`, `Scrolled`, ...; empty for a text in another form."""
    target: str
    """Label of the tapped element, or the typed text."""
    field: str
    """The label of the stepper, radio group or input that it belongs to."""
    title: str
    notes: tuple[str, ...]
    """Values that stood on that screen before the action, and may be needed later."""


def write_conclusion(conclusion: Conclusion, *, how: str = "", joint: str = "for", place: str = "on") -> str:
    """Write a conclusion; `how` follows the verb, `joint` leads from the target to its field, `place` to the title."""
    parts = [conclusion.verb, how] if how else [conclusion.verb]
    if conclusion.target:
        parts.append(quoted(conclusion.target))
    if conclusion.field:
        parts.append(f"{joint} {quoted(conclusion.field)}")
    if conclusion.title:
        parts.append(f"{place} {quoted(conclusion.title)}")
    noted = f", noting {', '.join(map(quoted, conclusion.notes))}" if conclusion.notes else ""
    return f"{' '.join(parts)}{noted}."


def read_conclusion(text: str) -> Conclusion:
    """Parse the output of `write_conclusion`, verbs as on a phone; all fields are empty for another text."""
    match = _CONCLUSION.fullmatch(text)
    if match is None:
        return Conclusion("", "", "", "", ())
    notes = tuple(_QUOTED.findall(match["notes"])) if match["notes"] else ()
    verb = _VERBS.get(match["verb"], match["verb"])
    return Conclusion(verb, match["target"] or "", match["field"] or "", match["title"] or "", notes)


def noted_values(conclusions: Sequence[Conclusion]) -> list[str]:
    """Return the distinct values noted so far, latest first."""
    return list(dict.fromkeys(note for conclusion in reversed(conclusions) for note in conclusion.notes))


@lru_cache(maxsize=8192)
def plain(text: str) -> str:
    """Normalise a text for conclusions: one line, no double quotes, at most 60 characters."""
    line = " ".join(text.split()).replace('"', "'")
    return line if len(line) <= 60 else line[:59] + "…"


def quoted(text: str) -> str:
    return f'"{plain(text)}"'


_LINE = re.compile(r'(?:\d+[.)]\s*)?(?P<verb>\w+)[^"]*(?:"(?P<target>[^"]*)")?(?P<rest>.*)')
HOLDING = ("hold", "right")
"""The verbs of a line for a long press and for a right click."""
_LOOKAHEAD = 3
"""Most lines that a step may skip, because the screen may already be as a line asks."""


class GuidanceLine(NamedTuple):
    """One line of guidance, for example `2. Tap "Large" in Size.`."""

    verb: str
    target: str
    field: frozenset[str]
    """Words after the quoted target: the label that it belongs to."""
    words: str
    """The target; the whole line if it has no quotes."""


@lru_cache(maxsize=8192)
def read_guidance_line(line: str) -> GuidanceLine:
    match = _LINE.match(line.strip())
    if match is None:
        return GuidanceLine("", "", frozenset(), line)
    target = plain(match["target"] or "")
    field = frozenset(token.normal for token in tokens(match["rest"]))
    return GuidanceLine(match["verb"].casefold(), target, field, target or line)


def remaining_lines(lines: Sequence[GuidanceLine], conclusions: Sequence[Conclusion]) -> Sequence[GuidanceLine]:
    following = 0
    for conclusion in conclusions:
        for ahead, line in enumerate(lines[following : following + _LOOKAHEAD], start=1):
            if _fulfils(conclusion, line):
                following += ahead
                break
    return lines[following:]


def confirms(line: GuidanceLine) -> bool:
    return (line.verb, line.target) == ("press", "Enter")


def _fulfils(conclusion: Conclusion, line: GuidanceLine) -> bool:
    if confirms(line):
        return conclusion.verb == "Confirmed"
    held = line.verb in HOLDING
    if (conclusion.verb == "Typed") != (line.verb == "type") or (conclusion.verb == "Held") != held:
        return False
    if line.target:
        return conclusion.target == line.target and fits(line, conclusion.field)
    done = {token.normal for token in tokens(conclusion.target)}
    return bool(done) and done <= {token.normal for token in tokens(line.words)}


def fits(line: GuidanceLine, label: str) -> bool:
    words = {token.normal for token in tokens(label)}
    return not line.field or not words or bool(words & line.field)
