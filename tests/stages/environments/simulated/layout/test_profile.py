"""Devices vary as the configuration says, and evaluation uses list orders that training does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.environments.kinds import DevicesSpec, SimulatedSpec
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile, profile_of
from trajmill.stages.environments.simulated.world import load_world
from trajmill.stages.rollout.base import episode_seed

MARKET = Path(__file__).parents[5] / "docs" / "examples" / "market.yaml"


def met(devices: DevicesSpec, purpose: Purpose) -> set[DeviceProfile]:
    return {profile_of(episode_seed(0, 1, f"q{at}", purpose, 0), devices) for at in range(400)}


def test_by_default_there_are_eight_devices() -> None:
    assert [profile_of(seed) for seed in range(20)] == [DeviceProfile(seed % 8) for seed in range(20)]


def test_evaluation_uses_no_device_and_no_long_list_order_of_training() -> None:
    devices = DevicesSpec(orders=70)
    trained, measured = met(devices, Purpose.TRAIN), met(devices, Purpose.EVALUATE)
    assert len(trained) > 200 and len(measured) > 100 and not trained & measured
    things = range(12)
    assert not {each.arrange("list", things) for each in trained} & {each.arrange("list", things) for each in measured}


def test_themes_and_text_sizes_can_be_left_out() -> None:
    plain = met(DevicesSpec(dark=False, large_text=False), Purpose.TRAIN)
    assert {(each.dark, each.scale) for each in plain} == {(False, 1.0)} and len(plain) == 6
    assert len({(each.dark, each.scale) for each in met(DevicesSpec(), Purpose.TRAIN)}) == 4


@pytest.mark.slow
def test_a_world_of_chosen_apps() -> None:
    world = load_world([MARKET], ["notes", "maps"])
    assert set(world.apps) == {"notes", "maps", "market"} and not world.errands
    assert [app.app for app in load_world([MARKET], []).apps_on(Platform.PHONE)] == ["market"]
    assert load_world(builtin=None).apps == load_world().apps
    with pytest.raises(BadInputError, match=r"^builtin_apps: there is no app 'note'; did you mean notes\?$"):
        SimulatedSpec(builtin_apps=("note",)).navigation_graph()
