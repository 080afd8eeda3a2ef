"""Keeps held-out texts out of the rows of a release: supervised rows of every kind, and RL rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.overlap import PhraseIndex
from trajmill.stages.queries.leaks import Leak, LeakKind, comparable, has_own_words, leaks_in_queries

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
        """Ids of the held-out queries, by comparable instruction."""
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


NEAR_HELDOUT: Final = "near_heldout"
_TASK_KEYS: Final = ("instruction", "goal", "task", "query", "intent", "question", "utterance", "prompt")
_LINES_REMEMBERED = 1 << 16


class NearLeak(NamedTuple):
    """Why a row must not be learned from."""

    reason: str
    """`near_heldout`, or `benchmark_` and the name of the benchmark."""
    found: str
    """Id of the held-out query, or the task of the benchmark."""


class NearLeaks:
    """Held-out instructions and benchmark tasks, to be looked for in training rows."""

    def __init__(self, queries: Sequence[Query], spec: CurateSpec) -> None:
        """Index what must not be learned.

        Raises:
            BadInputError: the file of a benchmark cannot be read, or has no tasks.
        """
        train = [query.instruction for query in queries if query.split is Split.TRAIN]
        heldout = {q.query_id: q.instruction for q in queries if q.split is not Split.TRAIN and has_own_words(q)}
        self._indices: dict[str, PhraseIndex] = {}
        if spec.near_heldout:
            self._indices[NEAR_HELDOUT] = PhraseIndex(heldout, train, spec.near_heldout)
        for name, path in spec.benchmarks.items():
            tasks = {task: task for task in benchmark_tasks(path)}
            self._indices[f"benchmark_{name}"] = PhraseIndex(tasks, (), spec.near_heldout or 1.0)
        # The lines of prompts repeat: the history of a step is in all prompts after it.
        self._found = lru_cache(maxsize=_LINES_REMEMBERED)(self._in_line)

    def identity(self) -> object:
        """What decides what is found."""
        return {reason: index.identity() for reason, index in self._indices.items()}

    def in_texts(self, texts: Iterable[TrainingText]) -> dict[str, NearLeak]:
        """By row id, the first thing that each leaking row has."""
        leaks: dict[str, NearLeak] = {}
        for text in texts:
            if text.text_id not in leaks:
                found = next(filter(None, map(self._found, text.text.splitlines())), None)
                if found is not None:
                    leaks[text.text_id] = found
        return leaks

    def _in_line(self, line: str) -> NearLeak | None:
        for reason, index in self._indices.items():
            for phrase in index.found_in(line):
                return NearLeak(reason, phrase.phrase_id)
        return None


def benchmark_tasks(path: Path) -> list[str]:
    """The tasks of a benchmark's file: one in each line, or JSON (a list, or an object in each line) with a known key.

    Raises:
        BadInputError: the file cannot be read, or has no task.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tasks = list(_tasks_in(text, path.suffix))
    except (OSError, ValueError) as error:
        raise BadInputError(f"curate.benchmarks: {path} cannot be read as tasks ({error})") from error
    if not tasks:
        raise BadInputError(
            f"curate.benchmarks: {path} has no task; JSON needs one of the keys {', '.join(_TASK_KEYS)}"
        )
    return tasks


def _tasks_in(text: str, suffix: str) -> Iterator[str]:
    match suffix:
        case ".json":
            read = json.loads(text)
            yield from _tasks_of(list(read.values()) if isinstance(read, dict) else read)
        case ".jsonl":
            yield from _tasks_of([json.loads(line) for line in text.splitlines() if line.strip()])
        case _:
            yield from (line.strip() for line in text.splitlines() if line.strip())


def _tasks_of(items: Sequence[Any]) -> Iterator[str]:
    for item in items:
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from (item[key] for key in _TASK_KEYS if isinstance(item.get(key), str))


class CleanRows(NamedTuple):
    """Rows without those that nearly state a held-out instruction."""

    rows: pa.Table
    left_out: Mapping[str, int]
    """Rows by reason."""
    leaking: frozenset[str]
    """Their ids."""


class RowLeak(NamedTuple):
    """Why a row must not be learned from."""

    reason: str
    """As that of `NearLeak`; the row is left out. Empty if the release is refused."""
    refusal: str = ""
    """What is wrong with the run: the row states a whole held-out instruction, or comes from another split."""


class LeakCheck:
    """Looks for held-out instructions and benchmark tasks in the rows of one release."""

    def __init__(self, queries: Sequence[Query], heldout_apps: Collection[str], spec: CurateSpec) -> None:
        """Prepare the check.

        Raises:
            TrajmillError: training queries have held-out goals, instructions, phrasings or apps.
            BadInputError: the file of a benchmark cannot be read.
        """
        self._stated = StatedTexts(queries)
        self._near = NearLeaks(queries, spec)
        _refuse([_told(leak) for leak in leaks_in_queries(queries, heldout_apps)])

    @cached_property
    def identity(self) -> str:
        """A hash of what is looked for: an equal one finds the same in rows that were checked before."""
        return content_id(sorted(self._stated.instructions.items()), self._near.identity())

    def examples(self, rows: pa.RecordBatch | pa.Table) -> dict[str, RowLeak]:
        """By id, the leaks in rows of table `examples`, of any kind; each row is looked at by itself."""
        batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches()
        return self._leaks(list(example_texts(batches)))

    def rl_steps(self, rows: pa.Table) -> CleanRows:
        """Check rows of table `rl_steps`.

        Raises:
            TrajmillError: one states a whole held-out instruction, or comes from another split.
        """
        return without_leaks(rows, "rl_step_id", self._leaks(list(rl_step_texts(rows.to_batches()))))

    def _leaks(self, texts: Sequence[TrainingText]) -> dict[str, RowLeak]:
        near = self._near.in_texts(texts)
        leaks = {row_id: RowLeak(leak.reason) for row_id, leak in near.items()}
        for text in texts:
            for leak in self._stated.leaks_in(text):
                leaks[text.text_id] = RowLeak("", _told(leak))
        return leaks


def without_leaks(rows: pa.Table, key: str, leaks: Mapping[str, RowLeak]) -> CleanRows:
    """The rows that do not leak.

    Raises:
        TrajmillError: a row states a whole held-out instruction, or comes from another split.
    """
    found = {row_id: leaks[row_id] for row_id in rows[key].to_pylist() if row_id in leaks} if leaks else {}
    _refuse([leak.refusal for leak in found.values() if leak.refusal])
    kept = without_rows(rows, key, frozenset(found))
    return CleanRows(kept, Counter(leak.reason for leak in found.values()), frozenset(found))


def without_rows(rows: pa.Table, key: str, ids: frozenset[str]) -> pa.Table:
    """A table, or a batch of one, without the rows with these ids."""
    return rows.filter(pc.invert(pc.is_in(rows[key], pa.array(sorted(ids), pa.string())))) if ids else rows


def _told(leak: Leak) -> str:
    return f"{leak.kind} of {leak.heldout} in {leak.found_in} ({leak.detail})"


def _refuse(leaks: Sequence[str]) -> None:
    if leaks:
        raise TrajmillError(
            f"{len(leaks)} leaks of held-out data into training, the first: {leaks[0]}; nothing was released"
        )
