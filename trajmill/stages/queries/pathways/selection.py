"""Collects the pathways of programs, with their need of a selected object: by a second walk, or by a model (6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, FailureClass, ModelFailure
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import Pathway, PathwayStep
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt
from trajmill.stages.queries.base import failure
from trajmill.stages.queries.pathways.navigator import Navigator, OutOfBounds
from trajmill.stages.queries.pathways.programs import STAGE, PathwayProgram, WalkBounds, WalkResult, start_query
from trajmill.stages.queries.pathways.search import deep_search

TREE = "tree"
ROLE = "writer"
_MAX_TOKENS = 300


class ClassifiedPathways(NamedTuple):
    """Pathways with their need of a selection, if it is known."""

    pathways: tuple[Pathway, ...]
    failures: tuple[Failure, ...]


class SelectionAnswer(Record):
    """The answer of a model about one pathway."""

    why: str
    needs_selection: bool


async def collect_pathways(
    factory: EnvironmentFactory,
    program: PathwayProgram,
    bounds: WalkBounds,
    origin: Origin,
    second_opinion: PromptedModel | None = None,
) -> WalkResult:
    """Walk a program, and find out which of its pathways need a selection.

    Args:
        factory: makes the environments; it is left open.
        program: to walk.
        bounds: of each walk.
        origin: common columns of the rows.
        second_opinion: the model to ask if the tree does not show that a selection is needed.
    """
    walked = await deep_search(factory, program, bounds, packaged_deny_list(), origin)
    classified = await needs_by_tree(factory, program, walked.pathways, bounds, origin)
    failures = (*walked.failures, *classified.failures)
    if second_opinion is not None:
        classified = await needs_by_model(second_opinion, program, classified.pathways, origin)
        failures += classified.failures
    return walked._replace(pathways=classified.pathways, failures=failures)


async def needs_by_tree(
    factory: EnvironmentFactory,
    program: PathwayProgram,
    pathways: Sequence[Pathway],
    bounds: WalkBounds,
    origin: Origin,
) -> ClassifiedPathways:
    """Find which pathways need a selection: go to their disabled ends again, with something selected.

    By the tree, a pathway whose end can be pressed without a selection needs none; an end that is disabled in both
    walks needs something else. Without something to select in the program, the pathways stay as they are. `bounds`
    hold for this second walk; the factory is left open.
    """
    if not program.selecting:
        return ClassifiedPathways(tuple(pathways), ())
    opening = (*program.opening, *program.selecting)
    navigator = Navigator(factory, start_query(program, origin), opening, bounds)
    # Two screens may have shown the same menu, hence the targets as keys.
    by_parent: dict[tuple[str, ...], tuple[tuple[PathwayStep, ...], list[Pathway]]] = {}
    for pathway in pathways:
        if not pathway.enabled:
            way = pathway.steps[:-1]
            by_parent.setdefault(tuple(step.target for step in way), (way, []))[1].append(pathway)
    needs = {each.pathway_id: False for each in pathways if each.enabled}
    failures: list[Failure] = []
    try:
        for way, ends in by_parent.values():
            try:
                state = await navigator.go_to(way)
            except EnvironmentFailure as error:
                failures.append(_failure(ends[0], str(error), error.failure_class, origin, TREE))
                await navigator.give_up()
                continue
            usable = {key.target for key, element in state.elements.items() if element.clickable}
            needs |= {each.pathway_id: each.steps[-1].target in usable for each in ends}
    except OutOfBounds:
        message = "the walk with a selection ended early: its steps or seconds were used up"
        first = next(ends[0] for _, ends in by_parent.values())
        failures.append(_failure(first, message, FailureClass.LIMIT, origin, TREE))
    finally:
        await navigator.give_up()
    classified = [
        each.model_copy(update={"needs_selection": needs[each.pathway_id], "selection_by": TREE})
        if each.pathway_id in needs
        else each
        for each in pathways
    ]
    return ClassifiedPathways(tuple(classified), tuple(failures))


def selection_prompt(own: Path | None = None) -> Prompt:
    """Read the prompt: the user's file, or the one of the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return load_prompt("trajmill.stages.queries.pathways", "writer_selection-1", own)


async def needs_by_model(
    second_opinion: PromptedModel, program: PathwayProgram, pathways: Sequence[Pathway], origin: Origin
) -> ClassifiedPathways:
    """Ask a model, with `selection_prompt`, about each pathway for which the tree shows no need of a selection.

    A need that the tree has shown (disabled without a selection, enabled with one) is kept. A pathway for which the
    model gives no answer stays as it is, and there is a failure.
    """
    classified: list[Pathway] = []
    failures: list[Failure] = []
    for pathway in pathways:
        if not pathway.needs_selection:
            fields = {
                "program": program.title,
                "way": untrusted(" > ".join(step.name for step in pathway.steps)),
                "kind": pathway.end_kind.replace("_", " "),
            }
            seed = int(content_id("selection", pathway.pathway_id), 16) % 2**31
            sampling = Sampling(seed=seed, max_tokens=_MAX_TOKENS)
            try:
                request = second_opinion.request(ROLE, fields, sampling=sampling)
                answer = await second_opinion.ask(request, SelectionAnswer)
                update = {"needs_selection": answer.needs_selection, "selection_by": second_opinion.version}
                pathway = pathway.model_copy(update=update)
            except ModelFailure as error:
                made_by = second_opinion.prompt.version
                failures.append(_failure(pathway, str(error), error.failure_class, origin, made_by))
        classified.append(pathway)
    return ClassifiedPathways(tuple(classified), tuple(failures))


def _failure(pathway: Pathway, message: str, failure_class: FailureClass, origin: Origin, made_by: str) -> Failure:
    return failure(pathway.pathway_id, message, origin, made_by, failure_class, stage=STAGE)
