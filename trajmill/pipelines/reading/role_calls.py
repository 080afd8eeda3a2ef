"""Reads what each role of an agent was asked and answered, from the table `model_calls`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches

CRITIC: Final = "critic"
"""How the roles of critics begin; they are no roles of an agent."""
_ORDER: Final = ("reflector", "notetaker", "state_tracker", "manager", "coordinator", "planner")
"""Within a step these roles are asked in this order, and the one that acts after them."""


def read_role_calls(
    warehouse: Warehouse, run_id: str, trajectory_ids: Collection[str], rounds: Collection[int] | None = None
) -> Mapping[str, tuple[ModelCall, ...]]:
    """The answered calls of an agent's roles by trajectory, in the order of steps and, in a step, of the roles.

    Args:
        warehouse: where to read.
        run_id: the run of the trajectories.
        trajectory_ids: the trajectories.
        rounds: rounds of these trajectories, to read less; None reads all rounds.
    """
    ids = pa.array(sorted(trajectory_ids), pa.string())
    calls: dict[str, list[ModelCall]] = defaultdict(list)
    for batch in read_batches(warehouse, "model_calls", rounds=rounds, run_id=run_id):
        data = pa.Table.from_batches([batch])
        of_agents = pc.invert(pc.starts_with(data["role"], CRITIC))
        chosen = pc.and_(pc.is_in(data["trajectory_id"], ids), pc.and_(of_agents, pc.is_valid(data["response"])))
        for row in rows_from_arrow("model_calls", data.filter(chosen)):
            if isinstance(row, ModelCall) and row.trajectory_id is not None and row.step_index is not None:
                calls[row.trajectory_id].append(row)
    return {name: tuple(sorted(found, key=_place)) for name, found in calls.items()}


def _place(call: ModelCall) -> tuple[int, int]:
    order = _ORDER.index(call.role) if call.role in _ORDER else len(_ORDER)
    return call.step_index or 0, order
