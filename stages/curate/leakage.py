"""Finds held-out instructions in the texts that a policy is to be trained on.

A release is trained on only if this and `leaks_in_queries` find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.queries.split_leaks import Leak, LeakKind, comparable, has_own_words


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


def leaks_in_texts(queries: Sequence[Query], texts: Iterable[TrainingText]) -> tuple[Leak, ...]:
    """Training texts that come from a query of another split, or that contain its instruction.

    A text contains an instruction if the instruction is a whole line, or all of a line after a colon, as in a prompt.
    """
    train = {query.query_id for query in queries if query.split is Split.TRAIN}
    stated = {comparable(q.instruction): q.query_id for q in queries if q.split is not Split.TRAIN and has_own_words(q)}
    leaks: list[Leak] = []
    seen: set[str] = set()
    for text in texts:
        if text.query_id not in train:
            leaks.append(Leak(LeakKind.LINEAGE, text.query_id, text.text_id, "its query is not in the training split"))
        # Thousands of examples have the same system message, so each distinct text is read once.
        if text.text not in seen:
            seen.add(text.text)
            leaks += _stated_in(text, stated)
    return tuple(leaks)


def _stated_in(text: TrainingText, stated: Mapping[str, str]) -> Iterator[Leak]:
    # A very long line is no instruction; twice the longest instruction leaves room for spaces.
    longest = 2 * max(map(len, stated), default=0)
    for line in text.text.splitlines():
        rest, colon = line, ":"
        while colon:
            found = stated.get(comparable(rest)) if len(rest) <= longest else None
            if found is not None:
                yield Leak(LeakKind.INSTRUCTION, found, text.text_id, f"states what is held out: {rest.strip()}")
            _, colon, rest = rest.partition(":")
