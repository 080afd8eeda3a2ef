"""Families of vision-language models; rollouts and exports use the same family for a model."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Final, NamedTuple

from trajmill.schemas.coordinates import (
    ANY_SIZE,
    GUI_OWL,
    QWEN2_5_VL,
    QWEN3_VL,
    SMALL_QWEN2_5_VL,
    UI_TARS,
    CoordinateFrame,
    CoordinateSpace,
    PixelBudget,
)
from trajmill.schemas.dialects import qwen_vl
from trajmill.schemas.dialects.base import Dialect
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.dialects.gui_r1 import GuiR1
from trajmill.schemas.dialects.read_aloud import ReadAloud
from trajmill.schemas.dialects.ui_tars import UiTarsDesktop, UiTarsMobile
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.names import instead_of
from trajmill.schemas.tables.query import Platform


class Family(NamedTuple):
    """The properties of all descendants of one vision-language model."""

    name: str
    mobile: Dialect
    desktop: Dialect
    space: CoordinateSpace
    budget: PixelBudget

    past_screens: int = 0
    """Number of earlier screens in a prompt, each with the model's reply to it."""
    keeps_replies: bool = False
    """Whether a prompt also has the earlier replies whose screens are not shown."""

    def dialect(self, platform: Platform) -> Dialect:
        """Its dialect on a platform; browsers have the dialect of desktops."""
        return self.mobile if platform is Platform.PHONE else self.desktop

    def frame(self, screen: Size) -> CoordinateFrame:
        """The frame of its texts. Raises ModelFailure if no image of the screen fits its pixel budget."""
        return CoordinateFrame(self.space, screen, self.budget.fit(screen))

    def within(self, max_pixels: int) -> Family:
        """The family with images of at most `max_pixels` pixels, or of its own bound if that is smaller."""
        most = min(max_pixels, self.budget.max_pixels)
        return self._replace(budget=self.budget.model_copy(update={"max_pixels": most}))

    def showing(self, screens: int | None) -> Family:
        """The family with at most so many screens in a prompt, the current one included; None keeps its own number."""
        return self if screens is None else self._replace(past_screens=screens - 1)


_V3_MOBILE, _V3_DESKTOP = GuiOwlMobile(), GuiOwlDesktop()
_PIXELS = CoordinateSpace.RESIZED_PIXELS

ANY: Final = Family("any", _V3_MOBILE, _V3_DESKTOP, _PIXELS, ANY_SIZE)
"""The embedded policy's family: the dialect of GUI-Owl v3, with images and positions of the stored size."""

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        family.name: family
        for family in (
            Family("gui-owl", _V3_MOBILE, _V3_DESKTOP, _PIXELS, GUI_OWL),
            Family(
                "gui-owl-1.5", qwen_vl.MOBILE_GUI_OWL, qwen_vl.DESKTOP_GUI_OWL, CoordinateSpace.PER_MILLE, QWEN3_VL, 4
            ),
            Family("ui-tars", UiTarsMobile(), UiTarsDesktop(), _PIXELS, UI_TARS, 4, keeps_replies=True),
            Family("gui-r1", GuiR1(phone=True), GuiR1(phone=False), _PIXELS, QWEN2_5_VL),
            Family("qwen2.5-vl", qwen_vl.MOBILE_2_5, qwen_vl.DESKTOP_2_5, _PIXELS, QWEN2_5_VL),
            Family("qwen3-vl", qwen_vl.MOBILE_3, qwen_vl.DESKTOP_3, CoordinateSpace.PER_999, QWEN3_VL),
            Family("read-aloud", ReadAloud(), ReadAloud(), CoordinateSpace.PATCHES, SMALL_QWEN2_5_VL),
            ANY,
        )
    }
)
"""The built-in model families by name."""


def family_names() -> tuple[str, ...]:
    return (*FAMILIES, *sorted(set(_added()) - set(FAMILIES)))


def family_named(name: str) -> Family:
    """Return a built-in family, or one that an installed package adds (entry point group `trajmill.families`).

    Raises BadInputError if there is none, which proposes the nearest name, or if its package cannot be imported.
    """
    if family := FAMILIES.get(name):
        return family
    if point := _added().get(name):
        return _loaded(point)
    raise BadInputError(f"no model family is named {name!r:.60}; {instead_of(name.lower(), family_names())}")


def _added() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="trajmill.families")}


def _loaded(point: EntryPoint) -> Family:
    try:
        family = point.load()
    except (ImportError, AttributeError) as error:
        raise BadInputError(f"{point.group}: {point.name} = {point.value} cannot be loaded: {error}") from error
    if not (isinstance(family, Family) and family.name == point.name):
        raise BadInputError(f"{point.group}: {point.name} = {point.value} is not a Family named {point.name!r}")
    return family
