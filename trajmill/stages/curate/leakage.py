"""Finds held-out instructions in the texts that a policy is to be trained on.

A release is trained on only if this and `leaks_in_queries` find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.queries.leaks import Leak, LeakKind, comparable, has_own_words

_TEXTS_REMEMBERED = 1 << 10


class TrainingText(NamedTuple):
    """A text that a policy is to be trained on."""

    text_id: str
    query_id: str
    text: str


def example_texts(batches: Iterable[pa.RecordBatch]) -> Iterator[TrainingText]:
    """The messages of training examples.

    Args:
        batches: rows of table `examples`; only the columns `example_id`, `query_id` and `messages` are read.
    """
    for batch in batches:
        columns = (batch[name].to_pylist() for name in ("example_id", "query_id", "messages"))
        for example_id, query_id, messages in zip(*columns, strict=True):
            for message in messages:
                yield TrainingText(example_id, query_id, message["content"])


def rl_step_texts(batches: Iterable[pa.RecordBatch]) -> Iterator[TrainingText]:
    """The prompts and responses of policy-update instances; the group of an instance is its query.

    Args:
        batches: rows of table `rl_steps`; only the columns `rl_step_id`, `group`, `prompt` and `response` are read.
    """
    for batch in batches:
        columns = (batch[name].to_pylist() for name in ("rl_step_id", "group", "prompt", "response"))
        for rl_step_id, group, prompt, response in zip(*columns, strict=True):
            for message in prompt:
                yield TrainingText(rl_step_id, group, message["content"])
            yield TrainingText(rl_step_id, group, response)


class StatedTexts:
    """Instructions that are held out, to be looked for in training texts."""

    def __init__(self, queries: Sequence[Query]) -> None:
        """Index the held-out instructions of all queries of a run."""
        self._train = {query.query_id for query in queries if query.split is Split.TRAIN}
        heldout = (query for query in queries if query.split is not Split.TRAIN and has_own_words(query))
        self.instructions: Mapping[str, str] = {comparable(query.instruction): query.query_id for query in heldout}
        """By what is looked for, the query that asks for it."""
        # A very long line is no instruction; twice the longest instruction leaves room for spaces.
        self._longest = 2 * max(map(len, self.instructions), default=0)
        # Thousands of examples have the same system message.
        self._found = lru_cache(maxsize=_TEXTS_REMEMBERED)(self._stated_in)

    def leaks_in(self, text: TrainingText) -> Iterator[Leak]:
        """What a text leaks: that its query is of another split, and each held-out instruction that it contains."""
        if text.query_id not in self._train:
            yield Leak(LeakKind.LINEAGE, text.query_id, text.text_id, "its query is not in the training split")
        for found, rest in self._found(text.text):
            yield Leak(LeakKind.INSTRUCTION, found, text.text_id, f"states what is held out: {rest}")

    def _stated_in(self, text: str) -> tuple[tuple[str, str], ...]:
        return tuple(self._stated_lines(text))

    def _stated_lines(self, text: str) -> Iterator[tuple[str, str]]:
        for line in text.splitlines():
            rest, colon = line, ":"
            while colon:
                found = self.instructions.get(comparable(rest)) if len(rest) <= self._longest else None
                if found is not None:
                    yield found, rest.strip()
                _, colon, rest = rest.partition(":")


def leaks_in_texts(queries: Sequence[Query], texts: Iterable[TrainingText]) -> tuple[Leak, ...]:
    """Training texts that come from a query of another split, or that contain its instruction.

    A text contains an instruction if the instruction is a whole line, or all of a line after a colon, as in a prompt.
    """
    stated = StatedTexts(queries)
    return tuple(leak for text in texts for leak in stated.leaks_in(text))
