from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from tests.stages.environments.android.stand_in.tasks import ORIGIN
from trajmill.schemas.actions import Click
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.android.environment import AndroidEnvironment, AndroidFactory
from trajmill.stages.environments.android.spec import AndroidSpec
from trajmill.stages.environments.android.task import PhoneTask
from trajmill.stages.environments.tasks import query_of


def settings_for(server: AdbServer, **changes: Any) -> AndroidSpec:
    """Settings for the phones of a server, with short time limits."""
    phone = next(iter(server.phones.values()))
    values = {"port": server.port, "apps": phone.packages(), "call_seconds": 5.0, "lease_seconds": 0.0}
    return AndroidSpec.model_validate({**values, **changes})


@asynccontextmanager
async def environment_on(phone: Phone, server: AdbServer, **changes: Any) -> AsyncIterator[AndroidEnvironment]:
    environment = await AndroidFactory(settings_for(server, serials=(phone.serial,), **changes))()
    try:
        yield environment
    finally:
        await environment.close()


def task(start_state: dict[str, Any] | None = None, goal: dict[str, Any] | None = None, *apps: str) -> Query:
    values = {"instruction": "Do it.", "apps": apps, "start_state": start_state or {}, "goal": goal or {}}
    return query_of(PhoneTask.model_validate(values), ORIGIN)


def element(seen: Observation, name: str) -> UIElement:
    return next(each for each in seen.elements or () if each.element_id == name)


def press(seen: Observation, name: str) -> Click:
    x, y = element(seen, name).bounds.center
    return Click(x=x, y=y)
