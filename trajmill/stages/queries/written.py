"""Texts that a model writes as tasks: refused if they repeat a known task, are too long, or are no task."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from trajmill.schemas.errors import BadInputError, FailureClass, StageError
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.queries.base import QueryPlan, Written
from trajmill.stages.queries.templates import one_line

if TYPE_CHECKING:
    from datasketch import MinHash

ROLE = "writer"
TEMPERATURE = 0.8
BATCH = 10
LONGEST_TASK = 400
LONGEST_QUOTE = 200
TOO_SIMILAR = 0.8
"""A task with this share of common words, or more, is a repetition of another."""
_LOOKED_AT = 0.5
"""Threshold of the index, at which it misses none in ten thousand that are `TOO_SIMILAR`; its hits are computed
exactly."""
_PERMUTATIONS: Final = 128
_FEWEST_WORDS = 2
_EXCUSE = re.compile(
    r"(?:(?:i['’]?m|i am|we are)\s+)?(?:sorry|unable)\b|(?:i|we)\s+(?:cannot|can['’]?t|can not)\b|as an ai\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\[[^\]]*\]|<[^>]*>|\{[^}]*\}|_{3,}|\bx{3,}\b", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")


class WrittenGoal(NamedTuple):
    task: str
    text: str
    made_by: str
    planned: QueryPlan

    def facts(self) -> None:
        return None

    def worded(self, heldout: bool, seed: int) -> Written:
        return Written(self.text, self.text, "", {}, self.made_by)

    def plan(self) -> QueryPlan:
        return self.planned


class WrittenText(Protocol):
    @property
    def instruction(self) -> str: ...


TextT = TypeVar("TextT", bound=WrittenText)


async def collect_new(
    wanted: int,
    spare: int,
    known: KnownTasks,
    ask: Callable[[list[str], int, int], Awaitable[Sequence[TextT]]],
    why_not: Callable[[TextT], str],
    refuse: Callable[[str, str, FailureClass], None],
) -> dict[str, TextT]:
    """Ask a model for batches until `wanted` new texts are kept, with `spare` further requests for refused ones.

    `ask` gets the texts so far, the wanted number and the number of the request; `why_not` returns why a text cannot be
    used, or nothing; `refuse` gets a refused text (empty if the model failed), the reason and its class.
    """
    kept: dict[str, TextT] = {}
    for number in range(-(-wanted // BATCH) + spare):
        end = min(len(kept) + BATCH, wanted)
        try:
            proposed = await ask(list(kept), end - len(kept), number) if end > len(kept) else ()
        except StageError as error:
            refuse("", str(error), error.failure_class)
            break
        for each in proposed:
            if len(kept) == end:
                break
            text, reason = one_line(each.instruction), why_not(each)
            if len(each.instruction) > LONGEST_TASK:
                reason = f"it has {len(each.instruction)} characters; at most {LONGEST_TASK} are allowed"
            elif len(text.split()) < _FEWEST_WORDS:
                reason = "it is no sentence"
            elif _EXCUSE.match(text):
                reason = "it is an excuse and no task"
            elif found := _PLACEHOLDER.search(text):
                reason = f'"{found[0]}" is a placeholder'
            elif not reason and (similar := known.find(text)):
                how = "the same words as" if similar.same_words else "nearly the same words as"
                reason = f'{how} "{similar.text[:LONGEST_QUOTE]}"'
            if reason:
                refuse(text, f"{reason}: {text[:LONGEST_QUOTE]}", FailureClass.TASK)
            else:
                known.add(text)
                kept[text] = each
    return kept


def bullets(texts: Sequence[str], longest: int) -> str:
    return "\n".join(f"- {untrusted(text, longest)}" for text in texts) or "(none)"


class SimilarTask(NamedTuple):
    text: str
    same_words: bool
    """Whether the words are the same; case, spacing and punctuation are ignored."""


class KnownTasks:
    def __init__(self, instructions: Iterable[str] = (), shared: KnownTasks | None = None) -> None:
        """Index instructions; `shared` is only read. Raises BadInputError if datasketch is not installed."""
        try:
            from datasketch import MinHash, MinHashLSH
        except ImportError:
            text = "proposed tasks need datasketch, which finds repetitions: pip install 'trajmill[curate]'"
            raise BadInputError(text) from None
        self._shared = shared
        self._by_words: dict[tuple[str, ...], str] = {}
        self._index = MinHashLSH(threshold=_LOOKED_AT, num_perm=_PERMUTATIONS)
        self._empty = MinHash(num_perm=_PERMUTATIONS)
        for instruction in instructions:
            self.add(instruction)

    def add(self, instruction: str) -> None:
        words = tuple(_WORD.findall(instruction.casefold()))
        if words not in self._by_words:
            self._by_words[words] = instruction
            self._index.insert(words, self._sketch(words))

    def find(self, instruction: str) -> SimilarTask | None:
        """Return the task with the same words, else the most similar task from `TOO_SIMILAR` on, else None."""
        words = tuple(_WORD.findall(instruction.casefold()))
        if words in self._by_words:
            return SimilarTask(self._by_words[words], True)
        # The Jaccard similarity of two sets of words.
        alike = (
            (len({*words} & {*other}) / max(len({*words} | {*other}), 1), self._by_words[other])
            for other in self._index.query(self._sketch(words))
        )
        share, text = max(alike, default=(0.0, ""))
        other = self._shared.find(instruction) if self._shared else None
        if share < TOO_SIMILAR or (other and other.same_words):
            return other
        return SimilarTask(text, False)

    def _sketch(self, words: tuple[str, ...]) -> MinHash:
        sketch = self._empty.copy()
        sketch.update_batch([word.encode() for word in sorted(set(words))])
        return sketch
