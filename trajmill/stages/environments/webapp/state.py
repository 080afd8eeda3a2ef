"""Reads the state of the apps from a page for the goal check; the page's data is validated."""

from __future__ import annotations

from pydantic import StrictBool, StrictInt, StrictStr, ValidationError

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.record import Record
from trajmill.stages.environments.simulated.state import Store, make_records

Value = StrictBool | StrictInt | StrictStr


class AppMemory(Record):
    """One app that has been opened."""

    values: tuple[tuple[str, Value], ...]
    lists: tuple[tuple[str, tuple[dict[str, Value], ...]], ...]
    stack: tuple[str, ...]
    """Screens of its back stack."""
    popup: str
    """Title of the message over it; empty without one."""
    sponsored: bool
    """Whether its lists have an advertisement."""

    def store(self) -> Store:
        """The store for the goal check."""
        return Store(dict(self.values), {name: make_records(items) for name, items in self.lists})


class DeviceState(Record):
    """The whole state of the device on a page."""

    foreground: str
    focus: str
    menu: str
    apps: tuple[tuple[str, AppMemory], ...]

    def stores(self) -> dict[str, Store]:
        """The stores of the apps that were opened."""
        return {name: memory.store() for name, memory in self.apps}


def read_device_state(data: object) -> DeviceState:
    """Read the state of a page from its JSON values.

    Raises:
        EnvironmentFailure: the data is malformed.
    """
    try:
        return DeviceState.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]["msg"]
        raise EnvironmentFailure(f"the web app has lost its state: {first}") from error
