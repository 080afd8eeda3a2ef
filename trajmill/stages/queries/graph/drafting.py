"""Makes one query from one sample: the first four of the five steps of the paper (6.2)."""

from __future__ import annotations

from collections.abc import Mapping

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Slot, Source, Split
from trajmill.stages.environments.simulated.annotations import PathMetadata, path_metadata
from trajmill.stages.environments.simulated.reference_path import goal_json, reference_path, start_state_json
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.difficulty import difficulty, step_limit
from trajmill.stages.queries.graph.base import Brief, QueryWriter
from trajmill.stages.queries.graph.sampling import TaskSample, apps_of
from trajmill.stages.queries.phrasing import lost_slots

NOT_WALKED = "not walked"
"""Validation outcome of a draft."""


async def draft(
    task: TaskGraph, sample: TaskSample, split: Split, heldout: bool, writer: QueryWriter, origin: Origin, seed: int
) -> Query:
    """Write a query that still has to be walked; `heldout` asks for a held-out phrasing.

    Raises:
        StageError: the writer failed, or its text misses a slot.
        BadInputError: a template cannot be parsed, or the path does not belong to the task.
    """
    metadata = path_metadata(task, sample.path, sample.asked)
    written = await writer.write(Brief(task, sample, metadata, heldout, seed))
    missing = lost_slots(written.text, written.said)
    if missing:
        raise StageError(f"{task.name}: the writer lost {', '.join(missing)} in: {written.text}", FailureClass.TASK)
    slots = _slots(metadata, written.said)
    start_state = start_state_json(task, sample.asked)
    apps = apps_of(sample.path)
    path = reference_path(task, sample.path, sample.asked)
    return Query(
        query_id=Query.make_id(task.platform, task.name, slots, start_state, written.text),
        platform=task.platform,
        apps=apps,
        source=Source.DAG,
        task=task.name,
        raw_instruction=written.raw,
        instruction=written.text,
        phrasing=written.phrasing,
        pages=sample.path,
        page_descriptions=tuple(page.description for page in metadata.pages),
        slots=slots,
        path=path,
        start_state=start_state,
        goal=goal_json(task, sample.asked),
        difficulty=difficulty(path, len(apps)),
        max_steps=step_limit(path),
        split=split,
        validation=NOT_WALKED,
        **origin.common(made_by=writer.version),
    )


def _slots(metadata: PathMetadata, said: Mapping[str, str]) -> tuple[Slot, ...]:
    return tuple(
        Slot(name=slot.name, value=slot.value, said=said.get(slot.name, ""), page=slot.page)
        for slot in metadata.constraints
    )
