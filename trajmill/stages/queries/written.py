"""What a language model writes: its prompts, and the refusal of texts that repeat a known task or are no task."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Split
from trajmill.schemas.text import printable
from trajmill.stages.critics.model.marking import untrusted
from trajmill.stages.models.prompts import Prompt, load_prompt
from trajmill.stages.overlap import KnownTexts
from trajmill.stages.queries.base import Candidate, Offer, QueryPlan, SplitCandidates, Written
from trajmill.stages.queries.templates import tidy

ROLE = "writer"
TEMPERATURE = 0.8
"""Of what has many wordings. Synthesis is greedy and its answers are cached."""
BATCH = 10
LONGEST_TASK = 400
LONGEST_QUOTE = 200
_FEWEST_WORDS = 2
_EXCUSE = re.compile(
    r"(?:(?:i['’]?m|i am|we are)\s+)?(?:sorry|unable)\b|(?:i|we)\s+(?:cannot|can['’]?t|can not)\b|as an ai\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\[[^\]]*\]|<[^>]*>|\{[^}]*\}|_{3,}|\bx{3,}\b", re.IGNORECASE)
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


def query_prompts(own: Mapping[str, Any] = {}) -> QueryPrompts:
    """Read the prompts, of the user by the keys of `[prompts]`; raises BadInputError if a file is unusable."""

    def prompt(name: str, path: Path | None = None) -> Prompt:
        return load_prompt(__package__, f"writer_{name}-1", path or own.get(f"writer_{name}"))

    def styles(names: Sequence[str], key: str) -> tuple[Prompt, ...]:
        return tuple(prompt(names[0], path) for path in own.get(key, ())) or tuple(map(prompt, names))

    trained, heldout = styles(_STYLES, "writer_refine"), styles(_HELDOUT_STYLES, "writer_refine_heldout")
    others = ("curriculum", "screen", "selection", "commands")
    return QueryPrompts(prompt("synthesise"), trained, heldout, *map(prompt, others))


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
    stream = (Candidate(goal, Split.TRAIN, False, 0) for goal in goals)
    return Offer((SplitCandidates(Split.TRAIN, None, [stream]),), tuple(failures), tuple(calls))


class Wording(Record):
    instruction: str


TextT = TypeVar("TextT", bound=Wording)


async def collect(
    wanted: int,
    spare: int,
    known: KnownTexts,
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
            text, reason = tidy(printable(each.instruction)), why_not(each)
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
