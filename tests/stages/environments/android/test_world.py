from collections.abc import Iterator
from typing import Any

import pytest

from tests.failures import failing
from tests.stages.environments.android.playing import environment_on
from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from tests.stages.environments.android.stand_in.tasks import ORIGIN
from tests.stages.environments.android.stand_in.world import World, world_of
from trajmill.schemas.actions import Answer, OpenApp, Terminate
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.android.spec import AndroidSpec


@pytest.fixture
def android_world(phone: Phone) -> Iterator[tuple[World, dict[str, Any]]]:
    """AndroidWorld's server at the first phone, and the keys that name it."""
    with world_of(phone) as (world, url):
        yield world, {"servers": {phone.serial: url}}


async def queries_of(keys: dict[str, Any], *names: str) -> list[Query]:
    spec = AndroidSpec.model_validate({"android_world": {**keys, "tasks": names}})
    assert spec.missing(other_queries=False) == []
    made = await spec.own_queries(3, ORIGIN)
    assert not made.untried
    return made.queries


async def test_its_tasks_become_queries(android_world: tuple[World, dict[str, Any]]) -> None:
    made = await queries_of(android_world[1])
    assert [each.task for each in made[::4]] == ["SystemBrightness", "VolumeQuestion", "NeedsAnApp"]
    assert [each.split for each in made[:4]] == [Split.TRAIN, Split.HELDOUT_SLOTS, Split.TRAIN, Split.VALIDATION]
    assert len({each.instruction for each in made[:4]}) == 4 and made[0].max_steps == 30
    assert [each.query_id for each in await queries_of(android_world[1], "SystemBrightness")] == [
        q.query_id for q in made[:4]
    ]
    other = [each.instruction for each in await queries_of({**android_world[1], "seed": 31}, "SystemBrightness")]
    assert other != [each.instruction for each in made[:4]]


async def test_its_server_prepares_scores_and_tears_down(
    phone: Phone, server: AdbServer, android_world: tuple[World, dict[str, Any]]
) -> None:
    at_phone, keys = android_world
    brightness, question = (await queries_of(keys))[0:8:4]
    async with environment_on(phone, server, android_world=keys) as environment:
        assert (await environment.reset(brightness, 0)).app == ""
        assert phone.settings["system.screen_brightness"] == "1" and await environment.snapshot() is None
        await environment.step(OpenApp(app="Clock"))
        phone.settings["system.screen_brightness"] = brightness.instruction.rstrip(".").split()[-1]
        assert await environment.score() == 0.0  # the agent has not ended it
        await environment.step(Terminate(status="success"))
        assert await environment.score() == 1.0
        phone.settings["system.screen_brightness"] = "2"
        assert await environment.score() == 0.0
        for text, score in (("8", 0.0), ("7", 1.0)):
            await environment.reset(question, 0)
            await environment.step(Answer(text=text))
            assert await environment.score() == score
        assert at_phone.torn_down == ["SystemBrightness", "VolumeQuestion"]
    assert at_phone.torn_down == ["SystemBrightness", "VolumeQuestion", "VolumeQuestion"]


async def test_what_is_wrong_gives_one_line(
    phones: list[Phone], server: AdbServer, android_world: tuple[World, dict[str, Any]]
) -> None:
    keys = android_world[1]
    query = (await queries_of(keys, "NeedsAnApp"))[0]
    wrong: list[tuple[Phone, dict[str, Any] | None, str]] = [
        (phones[0], keys, "AndroidWorld at http.*/task/initialize: 500: Internal Server Error"),
        (phones[0], {"servers": {phones[0].serial: "http://127.0.0.1:1"}}, "/suite/reinitialize: .*refused"),
        (phones[1], keys, "emulator-5556 has no server of AndroidWorld; name it in"),
        (phones[0], None, "emulator-5554 has no server of AndroidWorld"),
    ]
    for phone, named, words in wrong:
        async with environment_on(phone, server, android_world=named) as environment:
            with failing(FailureClass.SETUP, words):
                await environment.reset(query, 0)
    with failing(FailureClass.TASK, "AndroidWorld has no task Nothing"):
        await queries_of(keys, "Nothing")
