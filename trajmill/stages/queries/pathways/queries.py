"""Makes queries from pathways (`source = pathway`): each asks for the end of one; the goal check reads the screen."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field, PositiveInt

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import EndKind, Evidence, Pathway
from trajmill.schemas.tables.query import PathStep, Query, Slot, Source, Split
from trajmill.stages.environments.screen_goal import KEY
from trajmill.stages.graphs.explore.deny_list import DenyList
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.difficulty import difficulty, step_limit
from trajmill.stages.queries.novelty import InstructionIndex, Novelty
from trajmill.stages.queries.pathways.base import STAGE, PathwayProgram
from trajmill.stages.queries.pathways.wording import PathwayBrief, PathwayGrammar, PathwayWriter
from trajmill.stages.queries.split_leaks import leaks_in_queries

_FEWEST_STEPS = 15
"""Smallest step limit, because an agent may have to wait for a real program."""
_LONGEST_NAME = 40
_ORDER_OF_KINDS = (EndKind.DIALOG, EndKind.TAB, EndKind.PAGE, EndKind.MENU, EndKind.MENU_ITEM)
_FEWEST_TO_HOLD_OUT = 4
"""If one program has fewer pathways of one kind, none of them is held out."""


class PathwaySettings(Record):
    """How many queries to make of pathways, and the held-out shares; pathway ids decide what is held out."""

    most: PositiveInt = 60
    """Queries of one program. Dialogs, tabs and pages come first, then menus, then the entries of menus."""

    heldout_slots: float = Field(0.15, ge=0, le=0.4)
    """Share of the ends of each kind in each program that training never sees."""
    heldout_phrasings: float = Field(0.15, ge=0, le=0.4)
    """A further share, whose instructions have phrasings that training never sees."""
    validation: float = Field(0.15, ge=0, le=0.2)
    """A further share, which decides which policy is promoted."""
    heldout_programs: tuple[str, ...] = ()
    """Programs that training never sees."""


class PathwayQueries(NamedTuple):
    """Queries made from pathways, not yet validated by a walk."""

    queries: tuple[Query, ...]
    """Training queries first."""
    failures: tuple[Failure, ...]


async def pathway_queries(
    pathways: Sequence[Pathway],
    programs: Sequence[PathwayProgram],
    settings: PathwaySettings,
    deny_list: DenyList,
    writer: PathwayWriter,
    seed: int,
    origin: Origin,
) -> PathwayQueries:
    """Make one query for each end of pathways, from the shortest pathway that leads there.

    The grammar writes the queries that the writer fails at; the failure is kept. Leaves out ends that cannot be reached
    from the start state, that have no words as a name, or that are on the deny list. A held-out query that shares
    something with training becomes a failure.

    Args:
        pathways: of any of the programs.
        programs: the programs of the pathways.
        settings: how many, and what is held out.
        deny_list: elements that are never pressed.
        writer: writes the instructions.
        seed: decides between phrasings.
        origin: common columns of the rows.
    """
    by_name = {program.name: program for program in programs}
    grammar = PathwayGrammar()
    failures: list[Failure] = []
    queries: list[Query] = []
    index = InstructionIndex()
    by_split = _divide([each for each in pathways if is_askable(each, deny_list)], settings)
    for split in Split:
        for pathway in by_split[split]:
            program = by_name[pathway.program]
            brief = PathwayBrief(pathway, program, split is Split.HELDOUT_PHRASINGS, _seed(seed, pathway))
            try:
                query = _query(brief, await writer.write(brief), split, writer.version, origin)
            except StageError as error:
                failures.append(_failure(pathway.pathway_id, str(error), error.failure_class, origin, writer.version))
                query = _query(brief, await grammar.write(brief), split, grammar.version, origin)
            novelty = index.novelty_of(query)
            if novelty is Novelty.NEW:
                index.add(query)
                queries.append(query)
            elif novelty is not Novelty.REPEATED:
                message = f"{query.task}: {novelty.value}: {query.instruction}"
                failures.append(_failure(query.query_id, message, FailureClass.TASK, origin, writer.version))
    leaks = {leak.heldout: leak.detail for leak in leaks_in_queries(queries, settings.heldout_programs)}
    failures += [_failure(leaked, why, FailureClass.TASK, origin, writer.version) for leaked, why in leaks.items()]
    return PathwayQueries(tuple(query for query in queries if query.query_id not in leaks), tuple(failures))


def is_askable(pathway: Pathway, deny_list: DenyList) -> bool:
    """Whether the end of a pathway can be asked for: it has a name in words, can be reached, and does no harm."""
    names = [step.name for step in pathway.steps]
    has_words = all(any(map(str.isalpha, name)) and len(name) <= _LONGEST_NAME and "/" not in name for name in names)
    reachable = pathway.enabled or pathway.needs_selection is True
    # A menu entry at the top level is visible from the start, so there is nothing to ask for.
    nested = pathway.end_kind is not EndKind.MENU_ITEM or len(names) > 1
    return has_words and reachable and nested and not any(map(deny_list.denies, names))


def _divide(pathways: Sequence[Pathway], settings: PathwaySettings) -> dict[Split, list[Pathway]]:
    """Give each end to one split."""
    by_split: dict[Split, list[Pathway]] = {split: [] for split in Split}
    groups: dict[tuple[str, str], list[Pathway]] = defaultdict(list)
    for pathway in _chosen(pathways, settings.most):
        if pathway.program in settings.heldout_programs:
            by_split[Split.HELDOUT_APPS].append(pathway)
        else:
            groups[pathway.program, pathway.end_kind].append(pathway)
    for group in groups.values():
        by_chance = sorted(group, key=lambda each: content_id("split", each.pathway_id))
        divided = len(group) if len(group) >= _FEWEST_TO_HOLD_OUT else 0
        slots, words = round(settings.heldout_slots * divided), round(settings.heldout_phrasings * divided)
        by_split[Split.HELDOUT_SLOTS] += by_chance[:slots]
        by_split[Split.HELDOUT_PHRASINGS] += by_chance[slots : slots + words]
        decide = slots + words + round(settings.validation * divided)
        by_split[Split.VALIDATION] += by_chance[slots + words : decide]
        by_split[Split.TRAIN] += by_chance[decide:]
    return by_split


def _chosen(pathways: Sequence[Pathway], most: int) -> list[Pathway]:
    """The shortest pathway to each end, for at most `most` ends of each program."""
    ends: dict[tuple[str, ...], Pathway] = {}
    for pathway in sorted(pathways, key=lambda each: len(each.steps)):
        ends.setdefault(_end(pathway), pathway)
    taken: Counter[str] = Counter()
    chosen: list[Pathway] = []
    for pathway in sorted(ends.values(), key=lambda each: (_ORDER_OF_KINDS.index(each.end_kind), each.pathway_id)):
        taken[pathway.program] += 1
        if taken[pathway.program] <= most:
            chosen.append(pathway)
    return chosen


def _end(pathway: Pathway) -> tuple[str, ...]:
    shows = [f"{each.role}:{each.text}" for each in pathway.shows]
    return pathway.program, pathway.start_state, pathway.end_kind, pathway.end_name, *shows


def _query(brief: PathwayBrief, written: Written, split: Split, made_by: str, origin: Origin) -> Query:
    pathway, program = brief.pathway, brief.program
    path = _path(brief)
    slots = _slots(brief, written)
    pages = tuple(dict.fromkeys(step.page for step in path))
    return Query(
        query_id=Query.make_id(program.platform, brief.task, slots, program.start_state, written.text),
        platform=program.platform,
        apps=(program.name,),
        source=Source.PATHWAY,
        task=brief.task,
        raw_instruction=written.raw,
        instruction=written.text,
        phrasing=written.phrasing,
        pages=pages,
        page_descriptions=tuple(f"What shows in {program.title} after {page.partition('.')[2]}." for page in pages),
        slots=slots,
        path=path,
        start_state=program.start_state,
        goal=json.dumps({KEY: [_wanted(pathway, shown) for shown in pathway.shows]}),
        difficulty=difficulty(path, 1),
        max_steps=max(_FEWEST_STEPS, step_limit(path)),
        split=split,
        validation="",
        **origin.common(made_by=made_by),
    )


def _path(brief: PathwayBrief) -> tuple[PathStep, ...]:
    program, pathway = brief.program, brief.pathway
    opening = (*program.opening, *(program.selecting if pathway.needs_selection else ()))
    # The query asks to show an entry of a menu, not to choose it.
    pressed = pathway.steps[:-1] if pathway.end_kind is EndKind.MENU_ITEM else pathway.steps
    places = ["start", *(step.name for step in pressed)]
    pages = [f"{program.name}.{'/'.join(places[: end + 1])}" for end in range(len(places))]
    taps = [
        PathStep(page=page, operation="tap", target=step.target) for page, step in zip(pages, pressed, strict=False)
    ]
    return (*opening, *taps, PathStep(page=pages[-1], operation="finish", target=""))


def _slots(brief: PathwayBrief, written: Written) -> tuple[Slot, ...]:
    values = {"target": brief.name, "menu": brief.menu}
    if brief.pathway.needs_selection:
        values["selection"] = brief.program.selection
    said = written.said
    return tuple(
        Slot(name=name, value=value, said=said.get(name, ""), page=brief.program.name) for name, value in values.items()
    )


def _wanted(pathway: Pathway, shown: Evidence) -> dict[str, str]:
    # An entry that needs a selection is visible without one, but disabled.
    usable = pathway.needs_selection and pathway.end_kind is EndKind.MENU_ITEM
    return shown.model_dump() | ({"state": "clickable"} if usable else {})


def _seed(seed: int, pathway: Pathway) -> int:
    return int(content_id("pathway words", seed, pathway.pathway_id), 16)


def _failure(input_id: str, message: str, failure_class: FailureClass, origin: Origin, made_by: str) -> Failure:
    return Failure(
        stage=STAGE,
        input_id=input_id,
        failure_class=failure_class,
        message=message,
        attempts=1,
        **origin.common(made_by=made_by),
    )
