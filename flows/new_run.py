"""Notices that a configuration begins a new run where another one was to go on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trajmill.flows.configuration.config import Config
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.atomic import write_text
from trajmill.warehouse.layout import Warehouse, create_warehouse

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
    if not new_run and not warehouse.staging(run_id).exists():
        earlier = _newest_of_name(warehouse, config.run.name)
        if earlier is not None:
            raise NewRunError(_line(warehouse, run_id, earlier, config.identity()))
    file = warehouse.run(run_id) / IDENTITY_FILE
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(config.identity(), indent=1, sort_keys=True))
    warehouse.staging(run_id).mkdir(parents=True, exist_ok=True)


def _newest_of_name(warehouse: Warehouse, name: str) -> str | None:
    """The run of a name in which something was done last; None without one."""
    pattern = re.compile(rf"{re.escape(name)}-[0-9a-f]{{8}}")
    folders = [folder for folder in warehouse.staging(name).parent.iterdir() if pattern.fullmatch(folder.name)]
    return max(folders, key=lambda folder: folder.stat().st_mtime).name if folders else None


def _line(warehouse: Warehouse, run_id: str, earlier: str, identity: Mapping[str, Any]) -> str:
    changed = _changed_keys(warehouse.run(earlier) / IDENTITY_FILE, identity)
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    what = f"{', '.join(changed[:_MOST_NAMED])}{more} changed" if changed else "its configuration was another"
    return (
        f"this configuration begins a new run {run_id} and does not go on with {earlier} ({what} since then): "
        "say --new-run to begin it, change the configuration back, or give it another run.name"
    )


def _changed_keys(file: Path, identity: Mapping[str, Any]) -> list[str]:
    """The keys whose values differ from those in a file; empty if they are not known."""
    try:
        before = dict(flat_keys(json.loads(file.read_text(encoding="utf-8"))))
    except (OSError, ValueError):
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
