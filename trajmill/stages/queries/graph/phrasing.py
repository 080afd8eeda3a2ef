"""Draws the phrasing of a query: a template of its task, words for each slot, a clause for each optional slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.stages.environments.simulated.annotations import PathMetadata, SlotValue
from trajmill.stages.environments.simulated.app_files.app_spec import TaskSpec
from trajmill.stages.queries.base import Variant
from trajmill.stages.queries.graph.base import Clause, Phrasing
from trajmill.stages.queries.phrasing_template import parse_template

CLAUSES = "clauses"
"""Name of the placeholder for the clauses in a template."""


def draw_phrasing(spec: TaskSpec, metadata: PathMetadata, heldout: bool, seed: int) -> Phrasing:
    """Draw the phrasing of one query; `heldout` takes a held-out template and, where there are any, held-out clauses.

    Raises:
        StageError: no template or no clause expresses the wanted values.
        BadInputError: a template cannot be parsed.
    """
    rng = Random(seed)
    task = metadata.task
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
    variants = _variants(spec.heldout_phrasings if heldout else spec.phrasings, heldout)
    fitting = []
    for variant in variants:
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
    fitting = [variant for variant in variants if _says(variant, task, slot)]
    if not fitting:
        raise StageError(f"{task}: no clause says {slot.name} = {slot.value}", FailureClass.TASK)
    variant = rng.choice(fitting)
    words = parse_template(variant.text, task).expand(said, rng).strip()
    return Clause(slot.name, variant, words.removeprefix("and "))


def _says(variant: Variant, task: str, slot: SlotValue) -> bool:
    # A clause without the slot's name means that an option is on.
    return slot.name in parse_template(variant.text, task).names() or (slot.is_option and slot.value == "on")


def _variants(texts: Sequence[str], heldout: bool) -> list[Variant]:
    return [Variant(text, number, heldout) for number, text in enumerate(texts)]
