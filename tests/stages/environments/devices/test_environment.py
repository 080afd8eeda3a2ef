import json
import pickle
from pathlib import Path

import pytest

from tests.failures import failing
from tests.stages.rollout.toy import ORIGIN, ToyEnvironment, ToyFactory, toy_query
from trajmill.schemas.actions import Click, SwitchDevice
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.devices.environment import DevicesFactory, DevicesTogether, query_on
from trajmill.stages.environments.kinds import DevicesTogetherSpec

PRESS = Click(x=5, y=5)
TO_WEB, TO_DESKTOP = SwitchDevice(device="web"), SwitchDevice(device="desktop")


def across(start_state: str, goal: str = "{}") -> Query:
    return toy_query().model_copy(update={"start_state": start_state, "goal": goal})


async def test_actions_go_to_the_device_in_use_and_all_must_reach_their_goals() -> None:
    async def episode(*actions: Click | SwitchDevice) -> tuple[list[bool], float | None]:
        devices = {platform: ToyEnvironment(platform=platform) for platform in Platform}
        together = DevicesTogether(devices, Platform.PHONE)
        await together.reset(toy_query(), 0)
        for action in actions:
            await together.step(action)
        return [each.pressed for each in devices.values()], await together.score()

    assert await episode(TO_DESKTOP, PRESS) == ([False, True, False], 0.0)
    assert await episode(PRESS, TO_DESKTOP, PRESS, TO_WEB, PRESS) == ([True, True, True], 1.0)


class NeedsStart(ToyEnvironment):
    """As a browser, which has no start without an address."""

    async def reset(self, query: Query, seed: int) -> Observation:
        if query.start_state == "{}":
            raise EnvironmentFailure("url: Field required", FailureClass.TASK)
        return await super().reset(query, seed)


async def test_a_device_without_a_start_is_not_there_unless_the_query_names_it() -> None:
    web = NeedsStart(platform=Platform.WEB)
    together = DevicesTogether({Platform.PHONE: ToyEnvironment(), Platform.WEB: web}, Platform.PHONE)

    async def episode(query: Query) -> tuple[Platform, float | None]:
        await together.reset(query, 0)
        await together.step(PRESS)
        await together.step(TO_WEB)
        return together.platform, await together.score()

    assert await episode(across('{"devices": {"web": {"url": "a"}}}')) == (Platform.WEB, 0.0)
    assert await episode(across('{"devices": {}}')) == (Platform.PHONE, 1.0)
    with pytest.raises(EnvironmentFailure, match="url"):
        await episode(across("{}", '{"devices": {"web": {"x": 1}}}'))
    with failing(FailureClass.TASK, "no phone"):
        await DevicesTogether({Platform.WEB: ToyEnvironment()}, Platform.WEB).reset(toy_query(), 0)


def test_each_device_gets_its_part_of_the_query() -> None:
    query = across('{"devices": {"desktop": {"setup": {"a.b": {}}}}}', '{"devices": {"phone": {"x": 1}}}')
    phone, desktop = query_on(query, Platform.PHONE), query_on(query, Platform.DESKTOP)
    assert (phone.start_state, phone.goal, phone.platform) == ("{}", '{"x": 1}', Platform.PHONE)
    assert json.loads(desktop.start_state) == {"setup": {"a.b": {}}} and desktop.goal == "{}"
    alone = across('{"setup": {}}', '{"x": 2}')
    assert query_on(alone, Platform.PHONE).goal == '{"x": 2}' and query_on(alone, Platform.WEB).goal == "{}"
    for malformed in ("{", "3", '{"devices": {"fridge": {}}}', '{"devices": 3}'):
        with failing(FailureClass.TASK):
            query_on(across(malformed), Platform.PHONE)


async def test_what_was_started_is_closed_if_a_device_does_not_start() -> None:
    sound = ToyFactory()
    factory = DevicesFactory({Platform.PHONE: sound, Platform.DESKTOP: ToyFactory(machines=0)}, Platform.PHONE)
    with pytest.raises(EnvironmentFailure, match="no phone is free"):
        await factory()
    assert [each.closed for each in sound.made] == [True]


@pytest.mark.slow
async def test_the_spec_reads_tasks_across_devices(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    task = {"instruction": "Do both.", "start_state": {"devices": {}}, "goal": {"devices": {"desktop": {"x": 1}}}}
    file.write_text(json.dumps(task))
    spec = DevicesTogetherSpec(tasks=file)
    (query,) = (await spec.own_queries(0, ORIGIN)).queries
    assert json.loads(query.goal) == {"devices": {"desktop": {"x": 1}}} and query.platform is Platform.PHONE
    assert sorted(pickle.loads(pickle.dumps(spec.factory(Platform.PHONE))).devices) == [
        Platform.DESKTOP,
        Platform.PHONE,
    ]
    file.write_text('{"instruction": 3}')
    with pytest.raises(BadInputError, match=r"tasks\.jsonl:1"):
        await spec.own_queries(0, ORIGIN)
