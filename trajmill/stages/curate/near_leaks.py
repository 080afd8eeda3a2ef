"""Finds rows that nearly state a held-out instruction, or a task of a benchmark; they are left out of a release.

`leakage.py` finds whole instructions, and refuses the release: these come from a mistake in the run. A near match comes
from a model's own words, so only its row is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.curate.leakage import TrainingText
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.overlap import PhraseIndex
from trajmill.stages.queries.leaks import has_own_words

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
