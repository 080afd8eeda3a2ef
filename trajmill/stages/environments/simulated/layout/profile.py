"""Device profiles: devices with the same apps differ in theme, text size and order of lists."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from trajmill.schemas.record import content_id
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, Item
from trajmill.stages.environments.simulated.spec import DevicesSpec

PROFILES = 8
"""Few, so that distinct screens repeat and are stored once; `DevicesSpec.orders` asks for more."""
_LARGER_TEXT = 1.12

T = TypeVar("T")


class DeviceProfile(NamedTuple):
    """The profile of one device."""

    number: int
    """Number of the profile; profile 0 keeps the order of the app files."""
    may_be_dark: bool = True
    may_be_large: bool = True

    @property
    def dark(self) -> bool:
        """Whether the dark theme is on."""
        return self.may_be_dark and self.number % 2 == 1

    @property
    def scale(self) -> float:
        """Size of texts and rows."""
        return _LARGER_TEXT if self.may_be_large and self.number // 2 % 2 else 1.0

    def arrange(self, name: str, things: Sequence[T]) -> tuple[T, ...]:
        """The things in this device's order for the list `name`."""
        arranged = list(things)
        if self.number:
            random.Random(int(content_id("profile", self.number, name), 16)).shuffle(arranged)
        return tuple(arranged)

    def fixed_lists(self, app: AppSpec) -> dict[str, tuple[Item, ...]]:
        """The fixed lists of an app in this device's order."""
        return {
            name: items if name in app.ordered else self.arrange(f"{app.app}.{name}", items)
            for name, items in app.lists.items()
        }


def profile_of(seed: int, devices: DevicesSpec = DevicesSpec()) -> DeviceProfile:
    """The device of a reset with this seed: the remainder by `PROFILES` decides its look, the rest which of its orders.

    Profiles of different looks have different numbers, so that orders for evaluation are drawn apart from training's.
    """
    look, order = seed % PROFILES, seed // PROFILES % devices.orders
    return DeviceProfile(look + PROFILES * order, devices.dark, devices.large_text)
