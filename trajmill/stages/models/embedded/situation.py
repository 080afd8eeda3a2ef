"""Computes the features of one request, all that the network reads: word ids and flags; and batches of them.

They depend only on the request: the user's text and the screen's elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trajmill.schemas.dialects.user_text import UserText
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.models.embedded.candidates import (
    CONCLUSION_VERBS,
    FLAGS,
    KINDS,
    CandidateAction,
    answer_candidates,
    asks_for,
    fixed_flags,
    kind_of,
    may_give_up,
    next_keys,
    pair_code,
    screen_candidates,
    spot_codes,
    typed_candidates,
    with_guidance_flags,
    with_task_flags,
)
from trajmill.stages.models.embedded.words import (
    Conclusion,
    Lexicon,
    code_of,
    noted_values,
    plain,
    read_conclusion,
    read_guidance_line,
    remaining_lines,
    tokens,
)

Array = NDArray[Any]
A = TypeVar("A")

WORD_FLAGS = ["quoted", "consumed", "just_consumed", "number"]

MAX_INSTRUCTION, MAX_TEXT, MAX_FIELD, MAX_TITLE, MAX_SHOWN, MAX_STEP, MAX_HINT, MAX_HINTS = 48, 8, 6, 6, 24, 10, 12, 48


class Features(NamedTuple, Generic[A]):
    """The features of one request with `n` candidates and `m` words in its instruction.

    Words are ids, int32. A batch has a further axis in front, and is padded with 0.
    """

    instruction: A
    """(m,)"""
    instruction_flags: A
    """(m, WORD_FLAGS) float32"""
    hint: A
    """Words of the next guidance line; empty without guidance."""
    hints: A
    """Words of all guidance lines from the next one on."""
    title: A
    shown: A
    """Words of the elements that can be read but not pressed."""
    last: A
    """Words of the last conclusion."""
    before: A
    """Words of the conclusion before it."""
    texts: A
    """(n, MAX_TEXT) words of the candidates' texts."""
    fields: A
    """(n, MAX_FIELD) words of the labels and values beside them."""
    kinds: A
    """(n,)"""
    flags: A
    """(n, FLAGS) float32"""
    instruction_codes: A
    """(m,) int64 codes of the words of the instruction; the memory of pairs ignores 0."""
    codes: A
    """(n,) int64 code of each candidate; the memory of pairs ignores 0."""
    spots: A
    """(n,) int64 codes of a control's kind and its number among those on the screen; 0 if it has no label."""
    anchors: A
    """(3,) int64 codes of the screen's title, the last step's target and the title before; 0 for none."""
    exists: A
    """(n,) true for a candidate, false for padding."""


Situation = Features[Array]
Batch = Features[Tensor]


def empty_situation() -> Situation:
    none, codes = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return Situation(
        instruction=none,
        instruction_flags=np.zeros((0, len(WORD_FLAGS)), np.float32),
        hint=none,
        hints=none,
        title=none,
        shown=none,
        last=none,
        before=none,
        texts=np.zeros((0, MAX_TEXT), np.int32),
        fields=np.zeros((0, MAX_FIELD), np.int32),
        kinds=none,
        flags=np.zeros((0, len(FLAGS)), np.float32),
        instruction_codes=codes,
        codes=codes,
        spots=codes,
        anchors=np.zeros(3, np.int64),
        exists=np.zeros(0, np.bool_),
    )


class _ScreenPart(NamedTuple):
    """The features that are equal in all requests with the same screen."""

    candidates: list[CandidateAction]
    title_text: str
    title: Array
    shown: Array
    offered: dict[str, Array]
    """The features of the candidates, by field of `Features`."""
    focused: UIElement | None
    """The input that receives typed text."""
    values: tuple[str, ...]
    """Texts that are marked as data."""
    answers: list[CandidateAction]


class PolicyInput(NamedTuple):
    candidates: list[CandidateAction]
    situation: Situation
    title: str
    values: tuple[str, ...]
    conclusions: tuple[Conclusion, ...]


_HOME, _DONE_AGAIN = KINDS.index("home"), [FLAGS.index("done_twice"), FLAGS.index("done_often")]


@dataclass(slots=True)
class InputReader:
    """Turns requests into inputs of the policy; caches words, screens and conclusions."""

    lexicon: Lexicon = field(default_factory=Lexicon)
    screens: dict[tuple[str, bool], _ScreenPart] = field(default_factory=dict)
    conclusions: dict[str, tuple[Conclusion, Array]] = field(default_factory=dict)

    def read(
        self, user: UserText, screen_id: str, size: Size, elements: Sequence[UIElement], *, phone: bool
    ) -> PolicyInput:
        """Return the candidates of a request and their features; `screen_id` must be unique to the elements."""
        ids_of, part = self.lexicon.ids_of, self._screen_part(screen_id, size, elements, phone=phone)
        told = [text for text in user.conclusions if not text.startswith(CONCLUSION_VERBS["wait"])]
        for text in told:
            if text not in self.conclusions:
                self.conclusions[text] = read_conclusion(text), ids_of(text)[:MAX_STEP]
        past = [self.conclusions[text] for text in told]
        conclusions = tuple(conclusion for conclusion, _ in past)
        words, word_flags = self._instruction(user.instruction, conclusions)
        candidates, offered = part.candidates, part.offered
        more = [each for each in part.answers if asks_for(user.instruction, each)]
        if may_give_up(candidates, user.instruction, part.title_text, conclusions):
            more.append(CandidateAction("fail"))
        # Right after typing nothing more is typed: it would only be appended.
        if part.focused and not (conclusions and conclusions[-1].verb == CONCLUSION_VERBS["type"]):
            more += typed_candidates(user.instruction, noted_values(conclusions), part.focused)
        if more:
            of_more = self._offered(more, size)
            candidates = candidates + more
            offered = {name: np.concatenate((each, of_more[name])) for name, each in offered.items()}
        hints = [read_guidance_line(line) for line in user.guidance]
        left = remaining_lines(hints, conclusions)
        numbers = [int(token.normal) for token in tokens(user.instruction) if token.normal.isdecimal()]
        filled = part.focused is not None and bool(part.focused.value)
        keys = next_keys(user.instruction, conclusions)
        flags = with_task_flags(
            offered["flags"], candidates, part.title_text, conclusions, numbers, keys, filled=filled
        )
        if hints:
            flags = with_guidance_flags(flags, candidates, left)
        empty = np.zeros(0, np.int32)
        target = conclusions[-1].target if conclusions else ""
        here = plain(part.title_text)
        before = next((past.title for past in reversed(conclusions) if past.title not in ("", here)), "")
        situation = Situation(
            instruction=words,
            instruction_flags=word_flags,
            hint=ids_of(left[0].words if left else "")[:MAX_HINT],
            hints=ids_of(" ".join(hint.words for hint in left))[:MAX_HINTS],
            title=part.title,
            shown=part.shown,
            last=past[-1][1] if past else empty,
            before=past[-2][1] if len(past) > 1 else empty,
            instruction_codes=np.array([self.lexicon.codes[word] for word in words.tolist()], np.int64),
            anchors=np.array([code_of(part.title_text), code_of(target), code_of(before)], np.int64),
            # A policy that leaves the same screen for the launcher a third time goes in circles.
            exists=(offered["kinds"] != _HOME) | ~flags[:, _DONE_AGAIN].any(axis=1),
            **offered | {"flags": flags},
        )
        return PolicyInput(candidates, situation, part.title_text, part.values, conclusions)

    def _screen_part(self, screen_id: str, size: Size, elements: Sequence[UIElement], *, phone: bool) -> _ScreenPart:
        ids_of, part = self.lexicon.ids_of, self.screens.get((screen_id, phone))
        if part is not None:
            return part
        candidates = screen_candidates(elements, size, phone=phone)
        title = next((e.text for e in elements if "title" in e.states), "")
        shown = " ".join(e.text for e in elements if "clickable" not in e.states and "title" not in e.states)
        part = self.screens[screen_id, phone] = _ScreenPart(
            candidates,
            title,
            ids_of(title)[:MAX_TITLE],
            ids_of(shown)[:MAX_SHOWN],
            self._offered(candidates, size),
            next((e for e in elements if "focused" in e.states and "editable" in e.states), None),
            tuple(e.text for e in elements if e.role == "value" and e.text),
            answer_candidates(elements) if phone else [],
        )
        return part

    def _offered(self, candidates: Sequence[CandidateAction], size: Size) -> dict[str, Array]:
        words = {
            "texts": (MAX_TEXT, [c.text for c in candidates]),
            "fields": (MAX_FIELD, [f"{c.field} {c.beside}" for c in candidates]),
        }
        offered: dict[str, Array] = {
            "kinds": np.array([kind_of(c) for c in candidates], np.int32),
            "flags": np.array([fixed_flags(c, size) for c in candidates], np.float32),
            "codes": np.array([pair_code(c) for c in candidates], np.int64),
            "spots": np.array(spot_codes(candidates), np.int64),
        }
        for name, (width, texts) in words.items():
            offered[name] = np.zeros((len(texts), width), np.int32)
            for row, text in zip(offered[name], texts, strict=True):
                ids = self.lexicon.ids_of(text)[:width]
                row[: len(ids)] = ids
        return offered

    def _instruction(self, instruction: str, conclusions: Sequence[Conclusion]) -> tuple[Array, Array]:
        found = tokens(instruction)[:MAX_INSTRUCTION]
        ids = self.lexicon.ids_of(instruction)[:MAX_INSTRUCTION]
        done = {word for conclusion in conclusions for word in self.lexicon.ids_of(conclusion.target)}
        just = set(self.lexicon.ids_of(conclusions[-1].target)) if conclusions else set()
        inside = [instruction.count('"', 0, token.start) % 2 == 1 for token in found]
        rows = [
            (float(quoted), float(word in done), float(word in just), float(token.normal[0].isdigit()))
            for token, word, quoted in zip(found, ids.tolist(), inside, strict=True)
        ]
        return ids, np.array(rows, np.float32).reshape(len(found), len(WORD_FLAGS))


@dataclass(frozen=True, slots=True)
class Bags:
    """For each word, the rows of the embedding table whose mean is its vector; word 0 has no rows."""

    rows: Tensor
    offsets: Tensor
    weights: Tensor
    """(words,) weight of a word that two texts share: small for stop words, 0 for word 0."""


def collate(situations: Sequence[Situation]) -> Batch:
    """Pad situations, whose ids are those of one lexicon, to a batch."""
    padded = []
    for arrays in zip(*situations, strict=True):
        rows = np.zeros((len(arrays), max(1, *map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)
        for row, array in zip(rows, arrays, strict=True):
            row[: len(array)] = array
        padded.append(torch.from_numpy(rows))
    return Batch(*padded)


def bags(lexicon: Lexicon, words: Sequence[int]) -> Bags:
    chosen = [lexicon.buckets[word] for word in words]
    sizes = [len(rows) for rows in chosen]
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1])) if sizes else np.zeros(0)
    return Bags(
        torch.tensor([row for rows in chosen for row in rows], dtype=torch.long),
        torch.from_numpy(offsets.astype(np.int64)),
        torch.tensor([lexicon.weights[word] for word in words], dtype=torch.float32),
    )


class CandidateGrid(NamedTuple):
    """The positions of the `c` candidates (or words) of a batch in its (b, n) grid, most of which is padding."""

    exists: Tensor
    """(b, n)"""
    spots: Tensor
    """(c,) index into the flattened grid."""
    owner: Tensor
    """(c,) row of the batch."""

    def take(self, grid: Tensor) -> Tensor:
        """(b, n, ...) to (c, ...)."""
        return grid.flatten(0, 1).index_select(0, self.spots)

    def pad(self, tokens: Tensor) -> Tensor:
        """(c, ...) to (b, n, ...), with zeros as padding."""
        rows, columns = self.exists.shape
        grid = tokens.new_zeros(rows * columns, *tokens.shape[1:]).index_copy(0, self.spots, tokens)
        return grid.unflatten(0, (rows, columns))  # type: ignore[no-untyped-call, no-any-return]


def grid_of(exists: Tensor) -> CandidateGrid:
    spots = exists.flatten().nonzero().squeeze(1)
    return CandidateGrid(exists, spots, spots // exists.shape[1])
