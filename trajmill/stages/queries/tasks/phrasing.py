"""Words a task by its own templates: a template, words for each slot, a clause for each optional slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.stages.environments.simulated.annotations import PathMetadata, SlotValue
from trajmill.stages.environments.simulated.app_files.app_spec import TaskSpec
from trajmill.stages.queries.templates import Variant, listed, parse_template, tidy

CLAUSES = "clauses"
"""Name of the placeholder for the clauses in a template."""


class Clause(NamedTuple):
    """The words for one optional slot."""

    slot: str
    variant: Variant
    words: str
    """The expanded clause, without an `and` before it."""


class Phrasing(NamedTuple):
    """Everything that decides the words of an instruction."""

    task: str
    template: Variant
    clauses: tuple[Clause, ...]
    """In the order of the sentence."""
    said: Mapping[str, str]
    """By slot, the words that the instruction must contain."""
    seed: int
    """Decides between the alternatives inside the template."""

    @property
    def id(self) -> str:
        """As stored on the query, e.g. `bites.order/h0 place/1 size/h0`."""
        clauses = sorted(f"{clause.slot}/{clause.variant.id}" for clause in self.clauses)
        return " ".join([f"{self.task}/{self.template.id}", *clauses])

    def expand(self) -> str:
        """Return the instruction."""
        rng, clauses = Random(self.seed), ""
        if self.clauses:
            words = [clause.words for clause in self.clauses]
            joined = listed(words) if rng.random() < 0.5 else ", ".join(words)
            # In the middle of a sentence the clauses have a comma on both sides.
            clauses = f", {joined}" if self.template.text.rstrip().endswith(f"{{{CLAUSES}}}") else f", {joined},"
        return tidy(self.template.expand(self.task, {**self.said, CLAUSES: clauses}, rng))


def draw_phrasing(spec: TaskSpec, metadata: PathMetadata, heldout: bool, seed: int) -> Phrasing:
    """Draw the phrasing of one query; `heldout` takes a held-out template and, where there are any, held-out clauses.

    Raises:
        StageError: no template or no clause expresses the wanted values.
        BadInputError: a template cannot be parsed.
    """
    rng, task = Random(seed), metadata.task
    spoken = [slot for slot in metadata.constraints if slot.words]
    said = {slot.name: rng.choice(slot.words) for slot in spoken}
    template = _draw_template(spec, task, spoken, heldout, rng)
    named = parse_template(template.text, task).names()
    clauses = [_draw_clause(spec, task, slot, said, heldout, rng) for slot in spoken if slot.name not in named]
    rng.shuffle(clauses)
    # The whole clause expresses an option that is on or off.
    said |= {c.slot: c.words for c in clauses if c.slot not in parse_template(c.variant.text, task).names()}
    return Phrasing(task, template, tuple(clauses), said, rng.getrandbits(32))


def _draw_template(spec: TaskSpec, task: str, spoken: Sequence[SlotValue], heldout: bool, rng: Random) -> Variant:
    required = {slot.name for slot in spoken if not slot.optional}
    optional = {slot.name for slot in spoken if slot.optional}
    fitting = []
    for variant in _variants(spec.heldout_phrasings if heldout else spec.phrasings, heldout):
        names = parse_template(variant.text, task).names()
        leaves_room = CLAUSES in names or optional <= names
        if required <= names <= required | optional | {CLAUSES} and leaves_room:
            fitting.append(variant)
    if not fitting:
        kind = "held-out phrasing" if heldout else "phrasing"
        what = ", ".join(sorted(required | optional)) or "nothing"
        raise StageError(f"{task}: no {kind} says exactly {what}", FailureClass.TASK)
    return rng.choice(fitting)


def _draw_clause(
    spec: TaskSpec, task: str, slot: SlotValue, said: Mapping[str, str], heldout: bool, rng: Random
) -> Clause:
    variants = _variants(spec.heldout_clauses.get(slot.name, ()), True) if heldout else []
    variants = variants or _variants(spec.clauses.get(slot.name, ()), False)
    # A clause without the slot's name means that an option is on.
    is_on = slot.is_option and slot.value == "on"
    fitting = [each for each in variants if is_on or slot.name in parse_template(each.text, task).names()]
    if not fitting:
        raise StageError(f"{task}: no clause says {slot.name} = {slot.value}", FailureClass.TASK)
    variant = rng.choice(fitting)
    return Clause(slot.name, variant, variant.expand(task, said, rng).strip().removeprefix("and "))


def _variants(texts: Sequence[str], heldout: bool) -> list[Variant]:
    return [Variant(text, number, heldout) for number, text in enumerate(texts)]
