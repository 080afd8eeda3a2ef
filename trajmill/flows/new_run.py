"""Begins and finds the runs of a warehouse; a changed configuration begins a new run only with `--new-run`."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.stage import RoundContext
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.staging import has_begun, last_change

IDENTITY_FILE = "identity.json"
_CONFIG_FILE = "config.json"
RESOURCE_FILE = "resource"
_MOST_NAMED = 6


class NewRunError(BadInputError): ...


def refuse_new_run(config: Config) -> None:
    """Raise NewRunError if the configuration starts a second run of its name."""
    warehouse, run_id = create_warehouse(config.run.root), config.run_id
    if has_begun(warehouse, warehouse.staging(run_id)):
        return
    pattern = re.compile(rf"{re.escape(config.run.name)}-[0-9a-f]{{8}}")
    of_name = [run for run in warehouse.store.folders("staging") if pattern.fullmatch(run)]
    if of_name:
        earlier = max(of_name, key=lambda run: last_change(warehouse, warehouse.staging(run)))
        before = stored_identity(warehouse, earlier)
        # As JSON has no tuples, both sides are compared as it writes them.
        now = dict(flat_keys(json.loads(json.dumps(config.identity())))) if before else {}
        changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
        named = f"{', '.join(changed[:_MOST_NAMED])}{more} changed"
        raise NewRunError(
            f"this configuration starts a new run {run_id} instead of continuing {earlier} "
            f"({named if changed else 'its configuration was another'} since then): "
            "pass --new-run to start it, change the configuration back, or give it another run.name"
        )


def begin_or_continue(config: Config, new_run: bool = False) -> None:
    """Store what identifies the run, before its first stage. Raises NewRunError if it is new and may not be."""
    if not new_run:
        refuse_new_run(config)
    warehouse, run_id, identity = create_warehouse(config.run.root), config.run_id, config.identity()
    # Who came first has stored the identity.
    warehouse.store.create(
        warehouse.run_file(run_id, IDENTITY_FILE), json.dumps(identity, indent=1, sort_keys=True).encode()
    )
    # Addresses of endpoints and notifications may hold keys, and nothing that reads the file needs them.
    kept = config.model_dump_json(serialize_as_any=True, exclude={"endpoints", "notify"})
    warehouse.store.put(warehouse.run_file(run_id, _CONFIG_FILE), kept.encode())
    warehouse.staging(run_id).mkdir(parents=True, exist_ok=True)


def begun_runs(warehouse: Warehouse) -> list[str]:
    runs = warehouse.store.folders("runs")
    begun = [run for run in runs if warehouse.store.size(warehouse.run_file(run, IDENTITY_FILE))]
    return sorted(begun, key=lambda run: last_change(warehouse, warehouse.staging(run)))


def stored_identity(warehouse: Warehouse, run_id: str) -> dict[str, Any]:
    """Return what decides a run's rows, by dotted key; empty for a run of an earlier trajmill."""
    with suppress(ValueError):
        return dict(flat_keys(json.loads(warehouse.store.get(warehouse.run_file(run_id, IDENTITY_FILE)) or b"")))
    return {}


def runs_to_show(config_file: Path | None, warehouse: Warehouse, root: str | None) -> list[RoundContext]:
    """Return the configured run, or those of a warehouse, as last configured. Raises BadInputError without any."""
    if root is None or config_file is not None:
        return [RoundContext(load_config(config_file), warehouse, 1)]
    runs = begun_runs(warehouse)
    if not runs:
        raise BadInputError(f"no run has begun in {warehouse.address}; `trajmill evolve` begins one")
    return [RoundContext(config_of(warehouse, run), warehouse, 1, run) for run in runs]


def config_of(warehouse: Warehouse, run_id: str) -> Config:
    """Return the configuration of a run's last start without endpoints and `[notify]`; the defaults for an old run."""
    file = warehouse.run_file(run_id, _CONFIG_FILE)
    try:
        stored = json.loads(warehouse.store.get(file) or b"{}")
        try:
            return Config.model_validate(stored)
        except ValidationError as error:
            # An earlier trajmill had more keys.
            for *tables, key in (each["loc"] for each in error.errors() if each["type"] == "extra_forbidden"):
                reduce(getitem, tables, stored).pop(key)
        return Config.model_validate(stored)
    except (ValueError, LookupError, TypeError) as error:
        where = warehouse.store.uri(file)
        raise BadInputError(f"{where}: not a configuration; restore it, or start the run again") from error


RESOURCE = "trajmill.run."
"""How the ids of runs in Prefect begin."""


def run_resource(warehouse: Warehouse, run_id: str) -> str:
    """Return the id of a run in Prefect, made at the first call; it tells equal runs of two warehouses apart."""
    file = warehouse.run_file(run_id, RESOURCE_FILE)
    if (written := warehouse.store.get(file)) is None:
        warehouse.store.create(file, f"{RESOURCE}{run_id}.{uuid.uuid4().hex[:8]}".encode())
        written = warehouse.store.get(file) or b""
    return written.decode()


def flat_keys(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by their dotted keys, e.g. `rollout.group_size`."""
    for name, value in tables.items():
        if isinstance(value, Mapping):
            yield from flat_keys(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
