"""The writer by a language model: synthesis from path metadata, then few-shot refinement (paper 6.2, steps 3 and 4).

`slot_check` compares each draft with the slots of its task; a draft that misses, invents or changes something is sent
back with the reason. Held-out phrasings are questions, and training phrasings never are, which can be checked in every
draft. No training prompt shows an example of a held-out style.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Annotated, NamedTuple

from pydantic import StringConstraints

from trajmill.schemas.record import Record, content_id
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.annotations import KnownSlot, PathMetadata
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt
from trajmill.stages.queries.base import Candidate, DraftRefused, Written
from trajmill.stages.queries.slot_check import (
    LONGEST_RAW,
    InstructionCheck,
    check_instruction,
    either,
    vocabulary_of,
    without_quotes,
)
from trajmill.stages.queries.templates import HELDOUT_MARK, one_line, operations

ROLE = "writer"
TRIES = 3
"""Most drafts of each step; then the query fails."""
TEMPERATURE = 0.8
"""Of refinement: one goal gets many wordings. Synthesis is greedy and its answers are cached."""
_MAX_TOKENS = 512
_TRAIN_MARK = "t"
_LONGEST_QUOTE = 300
"""Characters of a refused draft that its failure quotes."""
_PACKAGE = "trajmill.stages.queries"
_TRAINED = ("writer_order-1", "writer_wish-1", "writer_short-1", "writer_report-1")
_HELDOUT = ("writer_ask-1", "writer_permit-1")


class Instruction(Record):
    """The answer of a writer."""

    instruction: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_RAW)]


class WriterPrompts(NamedTuple):
    """The prompts of a writer."""

    synthesise: Prompt
    trained: tuple[Prompt, ...]
    """For refinement, one for each training style; none may lead to a question."""
    heldout: tuple[Prompt, ...]
    """For refinement in the styles kept from training: questions."""


def writer_prompts(
    synthesise: Path | None = None, trained: Sequence[Path] = (), heldout: Sequence[Path] = ()
) -> WriterPrompts:
    """Read the prompts from the user's files; without a file, the prompt of the package.

    Raises:
        BadInputError: a file cannot be read, or misses a section or a field.
    """

    def styles(own: Sequence[Path], packaged: Sequence[str]) -> tuple[Prompt, ...]:
        if own:
            return tuple(load_prompt(_PACKAGE, packaged[0], path) for path in own)
        return tuple(load_prompt(_PACKAGE, name) for name in packaged)

    first = load_prompt(_PACKAGE, "writer_synthesise-1", synthesise)
    return WriterPrompts(first, styles(trained, _TRAINED), styles(heldout, _HELDOUT))


@dataclass(frozen=True, slots=True)
class ModelWriter:
    """Asks a language model for both steps."""

    model: ChatModel
    prompts: WriterPrompts = field(default_factory=writer_prompts)

    @property
    def version(self) -> str:
        """Prompt of the synthesis and model; the phrasing names the prompt of the refinement."""
        return PromptedModel(self.model, self.prompts.synthesise).version

    async def write(self, candidate: Candidate) -> Written:
        """Word a goal in both steps; the seed decides the style. A goal without facts keeps the words of its source.

        Raises:
            DraftRefused: no draft of a step asked for exactly what the goal asks for.
            ModelFailure: the model did not answer, or no answer was valid.
        """
        goal, _, heldout, seed = candidate
        facts = goal.facts()
        if facts is None:
            return goal.worded(heldout, seed)
        task, (metadata, slots) = goal.task, facts
        vocabulary = vocabulary_of(metadata)
        common = {"task": metadata.description, "slots": _slots_text(slots, metadata)}
        synthesis = PromptedModel(self.model, self.prompts.synthesise)
        fields = {**common, **_path_fields(metadata)}
        raw, _ = await _accepted_draft(
            synthesis,
            synthesis.request(ROLE, fields, sampling=Sampling(max_tokens=_MAX_TOKENS)),
            f"{task}: synthesis",
            lambda text: check_instruction(text, slots, vocabulary, LONGEST_RAW),
        )
        style = Random(seed).choice(self.prompts.heldout if heldout else self.prompts.trained)
        refinement = PromptedModel(self.model, style)
        sampling = Sampling(TEMPERATURE, seed=_seed(seed, 0), max_tokens=_MAX_TOKENS)
        text, said = await _accepted_draft(
            refinement,
            refinement.request(ROLE, {**common, "raw": raw}, sampling=sampling),
            f"{task}: refinement",
            lambda text: _in_style(text, check_instruction(text, slots, vocabulary), heldout),
        )
        mark = HELDOUT_MARK if heldout else _TRAIN_MARK
        return Written(raw, text, f"{task}/{mark}-{style.version}", said.said, self.version)


async def _accepted_draft(
    model: PromptedModel, request: ChatRequest, subject: str, check: Callable[[str], InstructionCheck]
) -> tuple[str, InstructionCheck]:
    """Return the first draft without problems; a refused draft is sent back with its problems."""
    attempt, text, problems = request, "", ""
    for number in range(1, TRIES + 1):
        text = one_line((await model.ask(attempt, Instruction)).instruction)
        checked = check(text)
        if not checked.problems:
            return text, checked
        problems = "; ".join(checked.problems)
        refused = ChatMessage("assistant", (json.dumps({"instruction": text}, ensure_ascii=False),))
        correction = ChatMessage("user", (f"That cannot be used: {problems}. Write it again without these mistakes.",))
        # Earlier drafts are left out to keep the request short.
        messages = (*request.messages, refused, correction)
        attempt = replace(request, messages=messages, seed=_seed(request.seed, number))
    raise DraftRefused(
        f"{subject}: {TRIES} drafts were refused, the last: {problems}, in: {text[:_LONGEST_QUOTE]}", TRIES
    )


def _seed(seed: int, number: int) -> int:
    return int(content_id("draft", seed, number), 16) % 2**31


def _in_style(text: str, checked: InstructionCheck, heldout: bool) -> InstructionCheck:
    if ("?" in without_quotes(text)) is heldout:
        return checked
    problem = "it must be a question that ends with a question mark" if heldout else "it must not be a question"
    return InstructionCheck(checked.said, (*checked.problems, problem))


def _path_fields(metadata: PathMetadata) -> dict[str, str]:
    is_phone = metadata.platform is Platform.PHONE
    lines: list[str] = []
    for number, page in enumerate(metadata.pages, start=1):
        lines.append(f"{number}. {page.app_name}: {page.description}")
        lines += [f"   - {operation}" for operation in operations(page, "tap" if is_phone else "click")]
    platform = "phone (apps are opened, things are tapped)" if is_phone else "computer (things are clicked)"
    return {"platform": platform, "pages": "\n".join(lines)}


def _slots_text(slots: tuple[KnownSlot, ...], metadata: PathMetadata) -> str:
    lines: list[str] = []
    for slot in slots:
        if slot.accepted:
            words = "say " + either(slot.accepted)
            words = f'type "{slot.accepted[0]}"' if slot.is_typed else f"on; {words}" if slot.is_option else words
            lines.append(f"- {slot.name.replace('_', ' ')}: {words}")
    lines += [
        f"- {slot.name.replace('_', ' ')}: the user does not know it; it stands in {slot.carried_from}"
        for slot in metadata.constraints
        if slot.carried_from
    ]
    return "\n".join(lines) or "(none: the task is always the same)"
