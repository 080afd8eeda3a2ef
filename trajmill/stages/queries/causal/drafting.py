"""Makes the query of a causal pathway, which still has to be walked."""

from __future__ import annotations

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Query, Source
from trajmill.stages.queries.causal.base import PathwayNode
from trajmill.stages.queries.causal.drawing import DrawnPathway
from trajmill.stages.queries.causal.metadata import pathway_settings
from trajmill.stages.queries.causal.path import pathway_goal, pathway_path, pathway_start
from trajmill.stages.queries.causal.wording import CausalBrief, CausalWriter, atomic_rows
from trajmill.stages.queries.live.drafting import NOT_WALKED
from trajmill.stages.queries.live.metadata import page_description
from trajmill.stages.queries.phrasing import lost_slots

_SPARE_STEPS = 10
_ACTIONS = {"type": 3, "open": 2}
"""Actions of an operation that needs several."""


async def draft_pathway(
    drawn: DrawnPathway, writer: CausalWriter, several_devices: bool, origin: Origin, seed: int
) -> Query:
    """Write the query of a pathway.

    Raises:
        StageError: the writer failed, or its text misses a value.
        ModelFailure: the writer's model did not answer.
    """
    pathway = drawn.pathway
    written = await writer.write(CausalBrief(pathway, several_devices, drawn.heldout, seed))
    missing = lost_slots(written.text, written.said)
    if missing:
        raise StageError(f"{drawn.task}: the writer lost {', '.join(missing)} in: {written.text}", FailureClass.TASK)
    slots = tuple(each.slot(written.said.get(each.name, "")) for each in pathway_settings(pathway))
    path, start = pathway_path(pathway), pathway_start(pathway, several_devices)
    pages = [(node.graph, page) for node in pathway.nodes for page in _pages(node)]
    return Query(
        query_id=Query.make_id(pathway.first, pathway.task, slots, start, written.text),
        platform=pathway.first,
        apps=pathway.apps,
        source=Source.CAUSAL,
        task=pathway.task,
        raw_instruction=written.raw,
        instruction=written.text,
        phrasing=written.phrasing,
        pages=tuple(f"{graph.app}.{page}" for graph, page in pages),
        page_descriptions=tuple(page_description(graph, page) for graph, page in pages),
        slots=slots,
        path=path,
        start_state=start,
        goal=pathway_goal(pathway, several_devices),
        difficulty=pathway.level,
        max_steps=_step_limit(path),
        split=drawn.split,
        validation=NOT_WALKED,
        atomic_tasks=atomic_rows(pathway),
        **origin.common(made_by=writer.version),
    )


def _pages(node: PathwayNode) -> tuple[str, ...]:
    """The pages of an atomic task, each once."""
    return tuple(dict.fromkeys((*(move.page for move in node.sample.moves), node.sample.end)))


def _step_limit(path: tuple[PathStep, ...]) -> int:
    """Twice the steps of the path and some more; typing takes up to three actions, opening another app two."""
    return 2 * sum(_ACTIONS.get(step.operation, 1) for step in path) + _SPARE_STEPS
