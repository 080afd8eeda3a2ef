"""Notices that a configuration begins a new run where another one was to go on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trajmill.flows.configuration.config import Config
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.staging import has_begun

IDENTITY_FILE = "identity.json"
"""Name of the file, in the run's folder, with what identifies the run."""
_MOST_NAMED = 6


class NewRunError(BadInputError):
    """The configuration begins a new run, and nobody has said that it may."""


def begin_or_continue(config: Config, new_run: bool = False) -> None:
    """Remember what identifies the run; call it before any of its stages.

    Args:
        config: the configuration.
        new_run: whether it may begin a run beside another one of its name.

    Raises:
        NewRunError: it would begin one, and may not.
    """
    warehouse, run_id = create_warehouse(config.run.root), config.run_id
    if not new_run and not has_begun(warehouse, warehouse.staging(run_id)):
        earlier = _newest_of_name(warehouse, config.run.name)
        if earlier is not None:
            raise NewRunError(_line(warehouse, run_id, earlier, config.identity()))
    file = _identity_file(warehouse, run_id)
    if warehouse.store.size(file) is None:
        warehouse.store.put(file, json.dumps(config.identity(), indent=1, sort_keys=True).encode())
    warehouse.staging(run_id).mkdir(parents=True, exist_ok=True)


def _identity_file(warehouse: Warehouse, run_id: str) -> str:
    return warehouse.name(warehouse.run(run_id) / IDENTITY_FILE)


def _newest_of_name(warehouse: Warehouse, name: str) -> str | None:
    """The run of a name in which something was done last; None without one."""
    pattern = re.compile(rf"{re.escape(name)}-[0-9a-f]{{8}}")
    runs = [run for run in warehouse.store.folders("staging") if pattern.fullmatch(run)]
    return max(runs, key=lambda run: _last_change(warehouse, run), default=None)


def _last_change(warehouse: Warehouse, run: str) -> float:
    folder = warehouse.staging(run)
    if warehouse.store.is_local:
        return folder.stat().st_mtime
    return max((file.modified for file in warehouse.store.files(warehouse.name(folder))), default=0.0)


def _line(warehouse: Warehouse, run_id: str, earlier: str, identity: Mapping[str, Any]) -> str:
    changed = _changed_keys(warehouse.store.get(_identity_file(warehouse, earlier)), identity)
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    what = f"{', '.join(changed[:_MOST_NAMED])}{more} changed" if changed else "its configuration was another"
    return (
        f"this configuration begins a new run {run_id} and does not go on with {earlier} ({what} since then): "
        "say --new-run to begin it, change the configuration back, or give it another run.name"
    )


def _changed_keys(stored: bytes | None, identity: Mapping[str, Any]) -> list[str]:
    """The keys whose values differ from those that were stored; empty if they are not known."""
    try:
        before = dict(flat_keys(json.loads(stored or b"")))
    except ValueError:
        return []
    # As JSON has no tuples, both sides are compared as it writes them.
    now = dict(flat_keys(json.loads(json.dumps(identity))))
    return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))


def flat_keys(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by their dotted keys, e.g. `rollout.group_size`."""
    for name, value in tables.items():
        if isinstance(value, Mapping):
            yield from flat_keys(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
