"""Writes instructions for the words of a screen and for characters in them (paper 2.2.2: words and characters)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.derive.grounding.detector import overlap
from trajmill.stages.derive.grounding.ocr import ReadLetter, ReadLine

WORD = "word"
CHARACTER = "character"
_NARROW: Final = frozenset("iIjlrtf1")
"""Letters that are narrower than the boxes of OCR, which are all equally wide in a line."""
_SHORTEST = 3
"""Letters of a word in which one is pointed at."""


class TextInstruction(NamedTuple):
    """An instruction for a word or a character."""

    variant: str
    text: str
    box: Box


class NoTextInstruction(NamedTuple):
    """A line, a word or a character that no instruction points at, and why."""

    variant: str
    reason: str
    detail: str


class TextRules(NamedTuple):
    """Which texts may be pointed at."""

    smallest: int
    """Width and height below which a text is too small."""
    score: float
    """Least confidence in each letter."""
    overlap: float
    """Least overlap of a line with a box of the detector."""


class _Word(NamedTuple):
    line: ReadLine
    letters: Sequence[ReadLetter]

    @property
    def text(self) -> str:
        return "".join(letter.text for letter in self.letters)

    @property
    def box(self) -> Box:
        boxes = [letter.box for letter in self.letters]
        return Box(
            min(box.left for box in boxes),
            min(box.top for box in boxes),
            max(box.right for box in boxes),
            max(box.bottom for box in boxes),
        )


def text_instructions(
    lines: Sequence[ReadLine], elements: Sequence[UIElement], detected: Sequence[Box] | None, rules: TextRules
) -> Iterator[TextInstruction | NoTextInstruction]:
    """An instruction for each word, and for one character of each word, or the reason why there is none.

    Args:
        lines: what OCR has read.
        elements: the tree of the screen, which tells misread words; may be empty.
        detected: the boxes of a detector, which finds lines; None without a detector.
        rules: which texts may be pointed at.
    """
    words = [_Word(line, letters) for line in lines for letters in _words(line)]
    alike = Counter(word.text for word in words)
    alike_lines = Counter(line.text for line in lines)
    for word in words:
        reason = _unfit(word, elements, detected, rules)
        named = _name(word, alike, alike_lines)
        if reason is not None or named is None:
            yield NoTextInstruction(WORD, reason or "ambiguous", word.text)
            continue
        yield TextInstruction(WORD, f"The word {named}.", word.box)
        yield _character(word, named, rules)


def _words(line: ReadLine) -> Iterator[Sequence[ReadLetter]]:
    start = 0
    for end, letter in enumerate((*line.letters, None)):
        if letter is None or letter.text.isspace():
            if end > start:
                yield line.letters[start:end]
            start = end + 1


def _unfit(word: _Word, elements: Sequence[UIElement], detected: Sequence[Box] | None, rules: TextRules) -> str | None:
    if not any(letter.text.isalnum() for letter in word.letters):
        return "no_text"
    if IMAGE_PLACEHOLDER in word.line.text:
        return "placeholder_in_text"
    if min(letter.score for letter in word.letters) < rules.score:
        return "unsure_text"
    if not _large(word.box, rules.smallest):
        return "too_small"
    if detected is not None and overlap(word.line.box, detected) < rules.overlap:
        return "no_detected_box"
    if elements and not any(_says(element, word) for element in elements):
        return "not_in_tree"
    return None


def _says(element: UIElement, word: _Word) -> bool:
    said = {*element.text.split(), *element.value.split()}
    return word.text in said and element.bounds.contains(*word.box.center)


def _name(word: _Word, alike: Counter[str], alike_lines: Counter[str]) -> str | None:
    """What tells a word from all others of the screen: itself, or its line too; None if nothing does."""
    if alike[word.text] == 1:
        return f'"{word.text}"'
    in_line = [one for one in word.line.text.split() if one == word.text]
    if alike_lines[word.line.text] == 1 and len(in_line) == 1 and word.text != word.line.text:
        return f'"{word.text}" in "{word.line.text}"'
    return None


def _character(word: _Word, named: str, rules: TextRules) -> TextInstruction | NoTextInstruction:
    """One character of a word, drawn by the word: characters would outnumber everything else."""
    if len(word.letters) < _SHORTEST:
        return NoTextInstruction(CHARACTER, "short_word", word.text)
    counts = Counter(letter.text for letter in word.letters)
    wide = [letter for letter in word.letters if letter.text.isalnum() and letter.text not in _NARROW]
    single = [letter for letter in wide if counts[letter.text] == 1 and _large(letter.box, rules.smallest)]
    if not single:
        return NoTextInstruction(CHARACTER, "no_single_letter" if wide else "narrow_letters", word.text)
    drawn = single[int(content_id("character", word.text, list(word.box)), 16) % len(single)]
    sort = "digit" if drawn.text.isdigit() else "letter"
    return TextInstruction(CHARACTER, f'The {sort} "{drawn.text}" of the word {named}.', drawn.box)


def _large(box: Box, smallest: int) -> bool:
    return box.right - box.left >= smallest and box.bottom - box.top >= smallest
