"""All checks, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from trajmill.flows.configuration.config import Config
from trajmill.flows.doctor.base import Finding
from trajmill.flows.doctor.consistency import check_consistency
from trajmill.flows.doctor.installation import check_installation
from trajmill.flows.doctor.surroundings import check_surroundings
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.store.address import store_at

_VERSION_FILE = "warehouse.json"


def examine(config: Config) -> Iterator[Finding]:
    """Everything that is known to go wrong; nothing is changed.

    Raises:
        BadInputError: the warehouse is of a newer version.
    """
    yield from check_installation(config)
    yield from check_surroundings(config)
    if store_at(config.run.root).size(_VERSION_FILE) is not None:
        yield from check_consistency(open_warehouse(config.run.root))
    else:
        yield Finding("warehouse", f"there is none in {config.run.root} yet")
