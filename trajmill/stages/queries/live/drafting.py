"""Makes one query from one sample of a live app's graph: the first four of the five steps of the paper (6.2)."""

from __future__ import annotations

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Platform, Query, Slot, Source, Split
from trajmill.stages.graphs.base import AppGraph, SlotKind
from trajmill.stages.graphs.operations import set_slot, take
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.difficulty import difficulty, step_limit
from trajmill.stages.queries.live.base import LiveSample, RouteMove
from trajmill.stages.queries.live.goal import goal_json
from trajmill.stages.queries.live.metadata import live_brief, page_description, page_name
from trajmill.stages.queries.live.wording import LiveWriter
from trajmill.stages.queries.phrasing import lost_slots

NOT_WALKED = "not walked"
"""Validation outcome of a draft."""
_FEWEST_STEPS = 10
"""Smallest step limit, because an agent may have to wait for a real program."""


async def draft_live(
    sample: LiveSample, split: Split, heldout: bool, writer: LiveWriter, origin: Origin, seed: int
) -> Query:
    """Write a query that still has to be walked; `heldout` asks for a held-out phrasing.

    Raises:
        StageError: the writer failed, or its text misses a value.
        ModelFailure: the writer's model did not answer.
    """
    written = await writer.write_live(live_brief(sample, heldout, seed))
    missing = lost_slots(written.text, written.said)
    if missing:
        raise StageError(f"{sample.task}: the writer lost {', '.join(missing)} in: {written.text}", FailureClass.TASK)
    graph, path = sample.graph, live_path(sample)
    slots = _slots(sample, written)
    pages = tuple(dict.fromkeys(step.page for step in path if step.page.startswith(f"{graph.app}.")))
    return Query(
        query_id=Query.make_id(graph.platform, sample.task, slots, graph.start_json, written.text),
        platform=graph.platform,
        apps=(graph.app,),
        source=Source.GRAPH,
        task=sample.task,
        raw_instruction=written.raw,
        instruction=written.text,
        phrasing=written.phrasing,
        pages=pages,
        page_descriptions=tuple(_description(sample, page) for page in pages),
        slots=slots,
        path=path,
        start_state=graph.start_json,
        goal=goal_json(sample),
        difficulty=difficulty(path, 1),
        max_steps=max(_FEWEST_STEPS, step_limit(path)),
        split=split,
        validation=NOT_WALKED,
        **origin.common(made_by=writer.version),
    )


def live_path(sample: LiveSample) -> tuple[PathStep, ...]:
    """The steps of a sample, from a reset to the end."""
    finish = PathStep(page=f"{sample.graph.app}.{sample.end}", operation="finish", target="")
    return (*sample.graph.opening, *steps_of(sample), finish)


def steps_of(sample: LiveSample) -> tuple[PathStep, ...]:
    """The steps of a sample, from the app's first page on."""
    graph = sample.graph
    moves = [step for move in sample.moves for step in _taken(graph, move)]
    last = [step for setting in sample.final for step in set_slot(graph, setting.page, setting.slot, setting.value)]
    return (*moves, *last)


def _taken(graph: AppGraph, move: RouteMove) -> tuple[PathStep, ...]:
    """The steps of a move; an item of a list may have to be scrolled to, where there is a wheel."""
    steps = take(graph, move.page, move.transition, move.values)
    pressed = graph.pages[move.page].slots.get(move.transition.by)
    if pressed is None or pressed.kind is not SlotKind.LIST or graph.platform is Platform.PHONE:
        return steps
    return (*steps[:-1], steps[-1].model_copy(update={"operation": "scroll"}), steps[-1])


def _slots(sample: LiveSample, written: Written) -> tuple[Slot, ...]:
    app = sample.graph.app
    slots = tuple(
        Slot(
            name=setting.name,
            value=setting.value,
            said=written.said.get(setting.name, ""),
            page=f"{app}.{setting.page}",
        )
        for setting in sample.settings
    )
    if slots:
        return slots
    named = page_name(sample.graph, sample.end)
    # The page itself is the value, so that the ends of one app are divided between the splits.
    return (Slot(name="page", value=named, said=written.said.get("page", ""), page=f"{app}.{sample.end}"),)


def _description(sample: LiveSample, page: str) -> str:
    return page_description(sample.graph, page.partition(".")[2])
