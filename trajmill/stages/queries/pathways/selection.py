"""Collects the pathways of programs, with their need of a selected object: by a second walk, or by a model (6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, FailureClass, ModelFailure
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import Pathway, PathwayStep
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt
from trajmill.stages.queries.base import failure
from trajmill.stages.queries.pathways.navigator import Navigator, OutOfBounds
from trajmill.stages.queries.pathways.programs import (
    STAGE,
    CollectedPathways,
    PathwayProgram,
    WalkBounds,
    WalkTally,
    start_query,
)
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
    programs: Sequence[PathwayProgram],
    bounds: WalkBounds,
    origin: Origin,
    second_opinion: PromptedModel | None = None,
) -> CollectedPathways:
    """Walk programs one after the other, and find out which pathways need a selection.

    Args:
        factory: makes their environments; it is left open.
        programs: to walk.
        bounds: of the walk over each program.
        origin: common columns of the rows.
        second_opinion: the model to ask if the tree does not show that a selection is needed.
    """
    pathways: list[Pathway] = []
    failures: list[Failure] = []
    screens: dict[str, Observation] = {}
    tallies: dict[str, WalkTally] = {}
    for program in programs:
        walked = await deep_search(factory, program, bounds, packaged_deny_list(), origin)
        classified = await needs_by_tree(factory, program, walked.pathways, bounds, origin)
        failures += [*walked.failures, *classified.failures]
        if second_opinion is not None:
            classified = await needs_by_model(second_opinion, program, classified.pathways, origin)
            failures += classified.failures
        pathways += classified.pathways
        screens |= walked.screens
        tallies[program.name] = walked.tally
    return CollectedPathways(tuple(pathways), tuple(failures), screens, tallies)


async def needs_by_tree(
    factory: EnvironmentFactory,
    program: PathwayProgram,
    pathways: Sequence[Pathway],
    bounds: WalkBounds,
    origin: Origin,
) -> ClassifiedPathways:
    """Find which pathways need a selection: go to their disabled ends again, with something selected.

    A pathway whose end can be pressed without a selection does not need one, as far as the tree shows. An end that is
    disabled in both walks needs something else.

    Args:
        factory: makes the environment; it is left open.
        program: the program of the pathways. If nothing can be selected in it, they stay as they are.
        pathways: the result of one walk.
        bounds: of this second, shorter walk.
        origin: common columns of the failures.
    """
    if not program.selecting:
        return ClassifiedPathways(tuple(pathways), ())
    opening = (*program.opening, *program.selecting)
    navigator = Navigator(factory, start_query(program, origin), opening, bounds)
    disabled = [each for each in pathways if not each.enabled]
    enabled: set[str] = set()
    checked: set[str] = {each.pathway_id for each in pathways if each.enabled}
    failures: list[Failure] = []
    try:
        for way, ends in _by_parent(disabled).items():
            try:
                state = await navigator.go_to(way)
            except EnvironmentFailure as error:
                failures.append(_failure(ends[0], str(error), error.failure_class, origin, TREE))
                await navigator.give_up()
                continue
            usable = {key.target for key, element in state.elements.items() if element.clickable}
            checked |= {each.pathway_id for each in ends}
            enabled |= {each.pathway_id for each in ends if each.steps[-1].target in usable}
    except OutOfBounds:
        message = "the walk with a selection ended early: its steps or seconds were used up"
        failures += [_failure(each, message, FailureClass.LIMIT, origin, TREE) for each in disabled[:1]]
    finally:
        await navigator.give_up()
    classified = [
        each.model_copy(update={"needs_selection": each.pathway_id in enabled, "selection_by": TREE})
        if each.pathway_id in checked
        else each
        for each in pathways
    ]
    return ClassifiedPathways(tuple(classified), tuple(failures))


def selection_prompt(own: Path | None = None) -> Prompt:
    """Read the prompt: the user's own file, or the one of the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return load_prompt("trajmill.stages.queries.pathways", "writer_selection-1", own)


async def needs_by_model(
    second_opinion: PromptedModel, program: PathwayProgram, pathways: Sequence[Pathway], origin: Origin
) -> ClassifiedPathways:
    """Ask a model about the pathways for which the tree shows no need of a selection.

    A need that the tree has shown (disabled without a selection, enabled with one) is kept. If the model gives no
    answer, the pathway stays as it is, and there is a failure.

    Args:
        second_opinion: the model that is asked, once for each pathway, with `selection_prompt`.
        program: the program of the pathways.
        pathways: the pathways to classify.
        origin: common columns of the failures.
    """
    classified: list[Pathway] = []
    failures: list[Failure] = []
    for pathway in pathways:
        if pathway.needs_selection:
            classified.append(pathway)
            continue
        try:
            answer = await second_opinion.ask(_request(second_opinion, program, pathway), SelectionAnswer)
        except ModelFailure as error:
            failures.append(_failure(pathway, str(error), error.failure_class, origin, second_opinion.prompt.version))
            classified.append(pathway)
            continue
        update = {"needs_selection": answer.needs_selection, "selection_by": second_opinion.version}
        classified.append(pathway.model_copy(update=update))
    return ClassifiedPathways(tuple(classified), tuple(failures))


def _by_parent(pathways: Sequence[Pathway]) -> dict[tuple[PathwayStep, ...], list[Pathway]]:
    grouped: dict[tuple[PathwayStep, ...], list[Pathway]] = {}
    ways: dict[tuple[str, ...], tuple[PathwayStep, ...]] = {}
    for pathway in pathways:
        way = pathway.steps[:-1]
        # Two screens may have shown the same menu.
        way = ways.setdefault(tuple(step.target for step in way), way)
        grouped.setdefault(way, []).append(pathway)
    return grouped


def _request(model: PromptedModel, program: PathwayProgram, pathway: Pathway) -> ChatRequest:
    fields = {
        "program": program.title,
        "way": untrusted(" > ".join(step.name for step in pathway.steps)),
        "kind": pathway.end_kind.replace("_", " "),
    }
    seed = int(content_id("selection", pathway.pathway_id), 16) % 2**31
    return model.request(ROLE, fields, sampling=Sampling(seed=seed, max_tokens=_MAX_TOKENS))


def _failure(pathway: Pathway, message: str, failure_class: FailureClass, origin: Origin, made_by: str) -> Failure:
    return failure(pathway.pathway_id, message, origin, made_by, failure_class, stage=STAGE)
