"""Reads the words of a screen with RapidOCR, and writes instructions for them and for characters in them (paper 2.2.2).

RapidOCR's PP-OCR models come with its package.
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from PIL import Image

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.derive.grounding.boxes import around, is_large, overlap
from trajmill.stages.derive.grounding.instructions import Instruction, NoInstruction

WORD, CHARACTER = "word", "character"
_NARROW: Final = frozenset("iIjlrtf1")
"""Letters that are narrower than the boxes of OCR, which are all equally wide in a line."""
_SHORTEST = 3


class ReadLetter(NamedTuple):
    """One character of a line, also a space."""

    text: str
    box: Box
    score: float
    """The recogniser's confidence, from 0 to 1."""


class ReadLine(NamedTuple):
    box: Box
    letters: tuple[ReadLetter, ...]

    @property
    def text(self) -> str:
        return "".join(letter.text for letter in self.letters)


class TextReader:
    """Reads one picture at a time: its models are not thread-safe."""

    def __init__(self) -> None:
        """Load the models. Raises BadInputError if a system library is missing, e.g. libGL.so.1."""
        try:
            from rapidocr_onnxruntime import RapidOCR
        except ImportError as error:
            raise BadInputError(f"derive.grounding.ocr: {error}; install it, or leave the key empty") from None
        # Workers are processes, so each model takes one core.
        self._read = RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1, use_cls=False)
        self._turn = threading.Lock()

    def lines(self, image: bytes) -> list[ReadLine]:
        """Return the lines of a picture from top to bottom, in its pixels. Raises OSError if it does not decode."""
        with Image.open(io.BytesIO(image)) as opened:
            blue_first = np.asarray(opened.convert("RGB"))[:, :, ::-1]
        with self._turn:
            found, _ = self._read(blue_first, return_word_box=True)
        return [
            ReadLine(_box_of(corners), tuple(map(ReadLetter, letters, map(_box_of, places), scores)))
            for corners, _, _, places, letters, scores in found or ()
        ]


def _box_of(corners: list[tuple[float, float]]) -> Box:
    return around(Box(round(x), round(y), round(x), round(y)) for x, y in corners)


class TextRules(NamedTuple):
    """The texts that may be pointed at: least size, overlap with a detected box, and confidence in each letter."""

    smallest: int
    overlap: float
    score: float = 0.9


class _Word(NamedTuple):
    line: ReadLine
    letters: Sequence[ReadLetter]
    text: str
    box: Box


def text_instructions(
    lines: Sequence[ReadLine], elements: Sequence[UIElement], detected: Sequence[Box] | None, rules: TextRules
) -> Iterator[Instruction | NoInstruction]:
    """Yield an instruction for each word of OCR's lines, and for one character of each, or the reason for having none.

    Words that the tree of the screen lacks are misread; lines that a detector did not find are refused.
    """
    words = [word for line in lines for word in _words(line)]
    alike = Counter(word.text for word in words)
    alike_lines = Counter(line.text for line in lines)
    for word in words:
        reason = _unfit(word, elements, detected, rules)
        named = _name(word, alike, alike_lines)
        if reason is not None or named is None:
            yield NoInstruction(WORD, reason or "ambiguous", word.text)
            continue
        yield Instruction(WORD, f"The word {named}.", word.box)
        yield _character(word, named, rules)


def _words(line: ReadLine) -> Iterator[_Word]:
    start = 0
    for end, letter in enumerate((*line.letters, None)):
        if letter is None or letter.text.isspace():
            if end > start:
                letters = line.letters[start:end]
                text = "".join(each.text for each in letters)
                yield _Word(line, letters, text, around(each.box for each in letters))
            start = end + 1


def _unfit(word: _Word, elements: Sequence[UIElement], detected: Sequence[Box] | None, rules: TextRules) -> str | None:
    if not any(letter.text.isalnum() for letter in word.letters):
        return "no_text"
    if IMAGE_PLACEHOLDER in word.line.text:
        return "placeholder_in_text"
    if min(letter.score for letter in word.letters) < rules.score:
        return "unsure_text"
    if not is_large(word.box, rules.smallest):
        return "too_small"
    if detected is not None and overlap(word.line.box, detected) < rules.overlap:
        return "no_detected_box"
    center = word.box.center
    shown = (each for each in elements if word.text in {*each.text.split(), *each.value.split()})
    if elements and not any(element.bounds.contains(*center) for element in shown):
        return "not_in_tree"
    return None


def _name(word: _Word, alike: Counter[str], alike_lines: Counter[str]) -> str | None:
    """Return an unambiguous name of a word on its screen, by itself or with its line; None if there is none."""
    if alike[word.text] == 1:
        return f'"{word.text}"'
    in_line = word.line.text.split().count(word.text)
    if alike_lines[word.line.text] == 1 and in_line == 1 and word.text != word.line.text:
        return f'"{word.text}" in "{word.line.text}"'
    return None


def _character(word: _Word, named: str, rules: TextRules) -> Instruction | NoInstruction:
    """Point at one pseudo-random character of a word: all characters would outnumber everything else."""
    if len(word.letters) < _SHORTEST:
        return NoInstruction(CHARACTER, "short_word", word.text)
    counts = Counter(letter.text for letter in word.letters)
    wide = [letter for letter in word.letters if letter.text.isalnum() and letter.text not in _NARROW]
    single = [letter for letter in wide if counts[letter.text] == 1 and is_large(letter.box, rules.smallest)]
    if not single:
        return NoInstruction(CHARACTER, "no_single_letter" if wide else "narrow_letters", word.text)
    drawn = single[int(content_id("character", word.text, list(word.box)), 16) % len(single)]
    sort = "digit" if drawn.text.isdigit() else "letter"
    return Instruction(CHARACTER, f'The {sort} "{drawn.text}" of the word {named}.', drawn.box)
