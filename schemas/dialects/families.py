"""Families of vision-language models: how a family writes and reads decides rollouts and exports alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.dialects.base import Dialect
from trajmill.schemas.dialects.gui_owl_1_5 import GuiOwl15Desktop, GuiOwl15Mobile
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.dialects.qwen_vl import Qwen3Desktop, Qwen3Mobile, Qwen25Desktop, Qwen25Mobile
from trajmill.schemas.dialects.read_aloud import ReadAloud
from trajmill.schemas.dialects.ui_tars.dialect import UiTarsDesktop, UiTarsMobile
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.nearest import instead_of
from trajmill.schemas.pixel_budget import (
    ANY_SIZE,
    GUI_OWL,
    QWEN2_5_VL,
    QWEN3_VL,
    SMALL_QWEN2_5_VL,
    UI_TARS,
    PixelBudget,
)
from trajmill.schemas.tables.query import Platform


class Family(NamedTuple):
    """What the descendants of one vision-language model share; equal families are equal in every process."""

    name: str
    """The family's name in a configuration."""
    mobile: Dialect
    """Wire format of actions on phones."""
    desktop: Dialect
    """Wire format of actions on desktops and in browsers."""
    space: CoordinateSpace
    """How it writes a position on the screen."""
    budget: PixelBudget
    """The sizes of pictures that it takes."""

    past_screens: int = 0
    """How many of the last screens are in a prompt, each with the model's reply to it."""
    keeps_replies: bool = False
    """Whether a prompt holds earlier replies even where their screens are not shown."""

    def dialect(self, platform: Platform) -> Dialect:
        """Its wire format of actions on a platform; browsers are driven like desktops."""
        return self.mobile if platform is Platform.PHONE else self.desktop

    def frame(self, screen: Size) -> CoordinateFrame:
        """How positions in its texts relate to a screen of a size.

        Raises:
            ModelFailure: no picture of the screen fits its pixel budget.
        """
        return CoordinateFrame(self.space, screen, self.budget.fit(screen))

    def within(self, max_pixels: int) -> Family:
        """The family with pictures of at most so many pixels, and never more than it takes by itself."""
        most = min(max_pixels, self.budget.max_pixels)
        return self._replace(budget=self.budget.model_copy(update={"max_pixels": most}))


_V3_MOBILE, _V3_DESKTOP = GuiOwlMobile(), GuiOwlDesktop()
_PIXELS = CoordinateSpace.RESIZED_PIXELS

ANY: Final = Family("any", _V3_MOBILE, _V3_DESKTOP, _PIXELS, ANY_SIZE)
"""Pictures as they are, and their pixels, in the dialect of GUI-Owl v3: what the embedded policy writes."""

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        family.name: family
        for family in (
            Family("gui-owl", _V3_MOBILE, _V3_DESKTOP, _PIXELS, GUI_OWL),
            Family("gui-owl-1.5", GuiOwl15Mobile(), GuiOwl15Desktop(), CoordinateSpace.PER_MILLE, QWEN3_VL, 4),
            Family("ui-tars", UiTarsMobile(), UiTarsDesktop(), _PIXELS, UI_TARS, 4, keeps_replies=True),
            Family("qwen2.5-vl", Qwen25Mobile(), Qwen25Desktop(), _PIXELS, QWEN2_5_VL),
            Family("qwen3-vl", Qwen3Mobile(), Qwen3Desktop(), CoordinateSpace.PER_999, QWEN3_VL),
            Family("read-aloud", ReadAloud(), ReadAloud(), CoordinateSpace.PATCHES, SMALL_QWEN2_5_VL),
            ANY,
        )
    }
)
"""All families by their names."""


def family_named(name: str) -> Family:
    """The family of a name.

    Raises:
        BadInputError: there is none of that name; the nearest one is named.
    """
    if family := FAMILIES.get(name):
        return family
    raise BadInputError(f"no model family is named {name!r:.60}; {instead_of(name.lower(), FAMILIES)}")
