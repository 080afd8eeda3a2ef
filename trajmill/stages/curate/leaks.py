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
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.overlap import PhraseIndex
from trajmill.stages.queries.base import NewQueries, failure
from trajmill.stages.queries.leaks import Leak, LeakKind, comparable, has_own_words, leaks_in_queries
from trajmill.stages.queries.proposals.source import STAGE


def usable_proposals(
    made: NewQueries, existing: Sequence[Query], heldout_apps: Collection[str], origin: Origin
) -> NewQueries:
    """Keep the proposals that training may use; the others become failures."""
    queries = [*existing, *made.queries]
    texts = [TrainingText(query.query_id, query.query_id, query.instruction) for query in made.queries]
    leaks = (*leaks_in_queries(queries, heldout_apps), *leaks_in_texts(queries, texts))
    reasons = {leak.found_in: leak.detail for leak in leaks}
    # Imported tasks are held out by their start state.
    imported = [query for query in existing if query.source is Source.IMPORTED]
    trained = {_state(query) for query in imported if query.split is Split.TRAIN}
    heldout = {_state(query) for query in imported if query.split is not Split.TRAIN} - trained - {"{}"}
    reasons |= {query.query_id: "it begins like a held-out task" for query in made.queries if _state(query) in heldout}
    kept = tuple(query for query in made.queries if query.query_id not in reasons)
    refused = []
    for query in made.queries:
        if query.query_id in reasons:
            text = f"{query.source}: training must not see it: {reasons[query.query_id]}"
            refused.append(failure(query.query_id, text, origin, query.made_by, stage=STAGE))
    return NewQueries(kept, (*made.failures, *refused))


def _state(query: Query) -> str:
    return json.dumps(json.loads(query.start_state), sort_keys=True)


NEAR_HELDOUT: Final = "near_heldout"
UNSEEN_APP: Final = "unseen_app"
_TASK_KEYS: Final = ("instruction", "goal", "task", "query", "intent", "question", "utterance", "prompt")
# Thousands of examples have the same system message, and the history of a step is in all prompts after it.
_TEXTS_REMEMBERED = 1 << 10
_LINES_REMEMBERED = 1 << 16


class TrainingText(NamedTuple):
    text_id: str
    query_id: str
    text: str


def training_texts(batches: Iterable[pa.RecordBatch], *columns: str) -> Iterator[TrainingText]:
    """Yield the texts of rows; the columns have the row's id, its query, its messages, and its further text if any."""
    for batch in batches:
        for row_id, query_id, messages, *further in zip(*(batch[name].to_pylist() for name in columns), strict=True):
            for text in (*(message["content"] for message in messages), *further):
                yield TrainingText(row_id, query_id, text)


class StatedTexts:
    """Finds the held-out instructions of a run's queries in training texts."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._train = {query.query_id for query in queries if query.split is Split.TRAIN}
        heldout = (query for query in queries if query.split is not Split.TRAIN and has_own_words(query))
        self.instructions: Mapping[str, str] = {comparable(query.instruction): query.query_id for query in heldout}
        """Ids of the held-out queries, by comparable instruction."""
        # A very long line is no instruction; twice the longest instruction leaves room for spaces.
        self._longest = 2 * max(map(len, self.instructions), default=0)
        self._stated = lru_cache(maxsize=_TEXTS_REMEMBERED)(self._find)

    def leaks_in(self, text: TrainingText) -> Iterator[Leak]:
        """Yield what a text leaks: that its query is of another split, and each held-out instruction in it."""
        if text.query_id not in self._train:
            yield Leak(LeakKind.LINEAGE, text.query_id, text.text_id, "its query is not in the training split")
        for found, rest in self._stated(text.text):
            yield Leak(LeakKind.INSTRUCTION, found, text.text_id, f"states what is held out: {rest}")

    def _find(self, text: str) -> list[tuple[str, str]]:
        stated = []
        for line in text.splitlines():
            rest, colon = line, ":"
            while colon:
                found = self.instructions.get(comparable(rest)) if len(rest) <= self._longest else None
                if found is not None:
                    stated.append((found, rest.strip()))
                _, colon, rest = rest.partition(":")
        return stated


def leaks_in_texts(queries: Sequence[Query], texts: Iterable[TrainingText]) -> tuple[Leak, ...]:
    """Find training texts that come from a query of another split, or that contain its instruction.

    A text contains an instruction if the instruction is a whole line, or all of a line after a colon, as in a prompt.
    """
    stated = StatedTexts(queries)
    return tuple(leak for text in texts for leak in stated.leaks_in(text))


class NearLeak(NamedTuple):
    reason: str
    """`near_heldout`, or `benchmark_` and the name of the benchmark."""
    found: str
    """Id of the held-out query, or the task of the benchmark."""


class NearLeaks:
    """Finds lines with most of a held-out instruction or of a benchmark's task."""

    def __init__(self, queries: Sequence[Query], spec: CurateSpec) -> None:
        """Index held-out instructions and benchmarks; raises BadInputError for a benchmark without readable tasks."""
        train = [query.instruction for query in queries if query.split is Split.TRAIN]
        heldout = {q.query_id: q.instruction for q in queries if q.split is not Split.TRAIN and has_own_words(q)}
        self._indices: dict[str, PhraseIndex] = {}
        if spec.near_heldout:
            self._indices[NEAR_HELDOUT] = PhraseIndex(heldout, train, spec.near_heldout)
        for name, path in spec.benchmarks.items():
            tasks = {task: task for task in benchmark_tasks(path)}
            self._indices[f"benchmark_{name}"] = PhraseIndex(tasks, (), spec.near_heldout or 1.0)
        self._found = lru_cache(maxsize=_LINES_REMEMBERED)(self._find)

    def identity(self) -> object:
        """Return what decides what is found."""
        return {reason: index.identity() for reason, index in self._indices.items()}

    def in_texts(self, texts: Iterable[TrainingText]) -> dict[str, NearLeak]:
        """Return by row id the first leak of each leaking row."""
        leaks: dict[str, NearLeak] = {}
        for text in texts:
            if text.text_id not in leaks:
                found = next(filter(None, map(self._found, text.text.splitlines())), None)
                if found is not None:
                    leaks[text.text_id] = found
        return leaks

    def _find(self, line: str) -> NearLeak | None:
        for reason, index in self._indices.items():
            for phrase in index.found_in(line):
                return NearLeak(reason, phrase.phrase_id)
        return None


def benchmark_tasks(path: Path) -> list[str]:
    """Read tasks: one in each line, or JSON (a list, or an object in each line) with a known key."""
    try:
        text = path.read_text(encoding="utf-8")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        items: list[Any] = lines
        if path.suffix == ".json":
            read = json.loads(text)
            items = list(read.values()) if isinstance(read, dict) else read
        elif path.suffix == ".jsonl":
            items = [json.loads(line) for line in lines]
        tasks = []
        for item in items:
            found = [item.get(key) for key in _TASK_KEYS] if isinstance(item, dict) else [item]
            tasks += [task for task in found if isinstance(task, str)]
    except (OSError, ValueError) as error:
        raise BadInputError(f"curate.benchmarks: {path} cannot be read as tasks ({error})") from error
    if not tasks:
        raise BadInputError(
            f"curate.benchmarks: {path} has no task; JSON needs one of the keys {', '.join(_TASK_KEYS)}"
        )
    return tasks


class CleanRows(NamedTuple):
    """Rows without those that nearly state a held-out instruction."""

    rows: pa.Table
    left_out: Mapping[str, int]
    """Rows by reason."""
    leaking: frozenset[str]

    def without_steps(self, key: str, steps: pa.Array) -> CleanRows:
        """Leave out the rows of some steps, `trajectory_id/index`: they show apps that training must not see."""
        index = self.rows["step_index"].cast(pa.string())
        is_one = pc.is_in(pc.binary_join_element_wise(self.rows["trajectory_id"], index, "/"), steps)
        found = frozenset(self.rows.filter(is_one)[key].to_pylist())
        left_out = {**self.left_out, **({UNSEEN_APP: len(found)} if found else {})}
        return CleanRows(without_rows(self.rows, key, found), left_out, self.leaking | found)


class RowLeak(NamedTuple):
    """Why a row must not be learned from."""

    reason: str
    """As that of `NearLeak`; the row is left out. Empty if the release is refused."""
    refusal: str = ""
    """What is wrong with the run: the row states a whole held-out instruction, or comes from another split."""


def leaks_of(rows: pa.Table) -> dict[str, RowLeak]:
    """Return the leaks of rows with the columns `example_id`, `leak` and `refusal`, by example id."""
    leaking = rows.filter(pc.is_valid(rows["leak"])).select(["example_id", "leak", "refusal"])
    found = zip(*(column.to_pylist() for column in leaking.columns), strict=True)
    return {example_id: RowLeak(reason, refusal) for example_id, reason, refusal in found}


class LeakCheck:
    """Finds held-out instructions and benchmark tasks in the rows of one release."""

    def __init__(self, queries: Sequence[Query], heldout_apps: Collection[str], spec: CurateSpec) -> None:
        """Raise TrajmillError if training queries leak, BadInputError for an unreadable benchmark."""
        self._stated = StatedTexts(queries)
        self._near = NearLeaks(queries, spec)
        _refuse([_described(leak) for leak in leaks_in_queries(queries, heldout_apps)])

    @cached_property
    def identity(self) -> str:
        """Hash of what is searched for: checks with equal hashes find the same in equal rows."""
        return content_id(sorted(self._stated.instructions.items()), self._near.identity())

    def examples(self, rows: pa.RecordBatch | pa.Table) -> dict[str, RowLeak]:
        """Return by id the leaks in rows of table `examples`, of any kind; each row is checked by itself."""
        batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches()
        return self._leaks(list(training_texts(batches, "example_id", "query_id", "messages")))

    def rl_steps(self, rows: pa.Table) -> CleanRows:
        """Check rows of table `rl_steps`; raises TrajmillError like `without_leaks`."""
        texts = training_texts(rows.to_batches(), "rl_step_id", "group", "prompt", "response")
        return without_leaks(rows, "rl_step_id", self._leaks(list(texts)))

    def _leaks(self, texts: Sequence[TrainingText]) -> dict[str, RowLeak]:
        leaks = {row_id: RowLeak(leak.reason) for row_id, leak in self._near.in_texts(texts).items()}
        for text in texts:
            for leak in self._stated.leaks_in(text):
                leaks[text.text_id] = RowLeak("", _described(leak))
        return leaks


def without_leaks(rows: pa.Table, key: str, leaks: Mapping[str, RowLeak]) -> CleanRows:
    """Drop the rows that leak; raises TrajmillError if one states a whole held-out instruction, or is held out."""
    found = {row_id: leaks[row_id] for row_id in rows[key].to_pylist() if row_id in leaks} if leaks else {}
    _refuse([leak.refusal for leak in found.values() if leak.refusal])
    kept = without_rows(rows, key, frozenset(found))
    return CleanRows(kept, Counter(leak.reason for leak in found.values()), frozenset(found))


def without_rows(rows: pa.Table, key: str, ids: frozenset[str]) -> pa.Table:
    """Drop the rows with these ids from a table, or from a batch of one."""
    return rows.filter(pc.invert(pc.is_in(rows[key], pa.array(sorted(ids), pa.string())))) if ids else rows


def _described(leak: Leak) -> str:
    return f"{leak.kind} of {leak.heldout} in {leak.found_in} ({leak.detail})"


def _refuse(leaks: Sequence[str]) -> None:
    if leaks:
        raise TrajmillError(
            f"{len(leaks)} leaks of held-out data into training, the first: {leaks[0]}; nothing was released"
        )
