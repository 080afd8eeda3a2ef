"""What a language model writes: its prompts, and the refusal of texts that repeat a known task or are no task."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from trajmill.schemas.errors import BadInputError, FailureClass, StageError
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Split
from trajmill.stages.critics.model.marking import untrusted
from trajmill.stages.models.prompts import Prompt, load_prompt
from trajmill.stages.overlap import SimilarSets
from trajmill.stages.queries.base import Candidate, Offer, QueryPlan, SplitCandidates, Written
from trajmill.stages.queries.templates import one_line

ROLE = "writer"
TEMPERATURE = 0.8
"""Of what has many wordings. Synthesis is greedy and its answers are cached."""
BATCH = 10
LONGEST_TASK = 400
LONGEST_QUOTE = 200
TOO_SIMILAR = 0.8
"""A task with this share of common words, or more, is a repetition of another."""
_LOOKED_AT = 0.5
"""Threshold of the index, at which it misses none in ten thousand that are `TOO_SIMILAR`."""
_FEWEST_WORDS = 2
_EXCUSE = re.compile(
    r"(?:(?:i['’]?m|i am|we are)\s+)?(?:sorry|unable)\b|(?:i|we)\s+(?:cannot|can['’]?t|can not)\b|as an ai\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\[[^\]]*\]|<[^>]*>|\{[^}]*\}|_{3,}|\bx{3,}\b", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")
_STYLES = ("order", "wish", "short", "report")
_HELDOUT_STYLES = ("ask", "permit")


class QueryPrompts(NamedTuple):
    synthesise: Prompt
    trained: tuple[Prompt, ...]
    heldout: tuple[Prompt, ...]
    """For refinement in the styles kept from training: questions."""
    curriculum: Prompt
    screen: Prompt
    selection: Prompt
    commands: Prompt


def query_prompts(
    synthesise: Path | None = None,
    trained: Sequence[Path] = (),
    heldout: Sequence[Path] = (),
    curriculum: Path | None = None,
    screen: Path | None = None,
    selection: Path | None = None,
    commands: Path | None = None,
) -> QueryPrompts:
    """Read the prompts; raises BadInputError if a user's file cannot be read, or lacks a section or a field."""

    def prompt(name: str, own: Path | None = None) -> Prompt:
        return load_prompt(__package__, f"writer_{name}-1", own)

    def styles(names: Sequence[str], own: Sequence[Path]) -> tuple[Prompt, ...]:
        return tuple(prompt(names[0], path) for path in own) or tuple(map(prompt, names))

    first, own_styles = prompt("synthesise", synthesise), (styles(_STYLES, trained), styles(_HELDOUT_STYLES, heldout))
    others = {"curriculum": curriculum, "screen": screen, "selection": selection, "commands": commands}
    return QueryPrompts(first, *own_styles, *(prompt(name, own) for name, own in others.items()))


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


def offer_of(goals: Iterable[WrittenGoal], failures: Sequence[Failure], calls: Sequence[ModelCall] = ()) -> Offer:
    """Offer written goals, all of them for training."""
    stream = (Candidate(goal, Split.TRAIN, False, 0) for goal in goals)
    return Offer((SplitCandidates(Split.TRAIN, None, [stream]),), tuple(failures), tuple(calls))


class WrittenText(Protocol):
    @property
    def instruction(self) -> str: ...


TextT = TypeVar("TextT", bound=WrittenText)


async def collect_new(
    wanted: int,
    spare: int,
    known: KnownTasks,
    ask: Callable[[list[str], int, int], Awaitable[Sequence[TextT]]],
    refuse: Callable[[str, str, FailureClass], None],
    why_not: Callable[[TextT], str] = lambda written: "",
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
            self._similar = SimilarSets(_LOOKED_AT)
        except ImportError:
            text = "proposed tasks need datasketch, which finds repetitions: pip install 'trajmill[curate]'"
            raise BadInputError(text) from None
        self._shared = shared
        self._by_words: dict[tuple[str, ...], str] = {}
        for instruction in instructions:
            self.add(instruction)

    def add(self, instruction: str) -> None:
        words = tuple(_WORD.findall(instruction.casefold()))
        if words not in self._by_words:
            self._by_words[words] = instruction
            self._similar.add(instruction, frozenset(words))

    def find(self, instruction: str) -> SimilarTask | None:
        """Return the task with the same words, else the most similar task from `TOO_SIMILAR` on, else None."""
        words = tuple(_WORD.findall(instruction.casefold()))
        if words in self._by_words:
            return SimilarTask(self._by_words[words], True)
        shares = self._similar.similar_to(frozenset(words)).items()
        share, text = max(((share, text) for text, share in shares), default=(0.0, ""))
        other = self._shared.find(instruction) if self._shared else None
        if share < TOO_SIMILAR or (other and other.same_words):
            return other
        return SimilarTask(text, False)
