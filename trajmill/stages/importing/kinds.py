"""The layouts that `trajmill import` reads, by name."""

from __future__ import annotations

from typing import Final

from trajmill.stages.importing.spec import LayoutSpec
from trajmill.stages.parts import PartGroup

LAYOUTS: Final = PartGroup(
    "trajmill.layouts",
    "layout",
    {
        "trajmill": "trajmill.stages.importing.exported:ExportedLayout",
        "agentnet": "trajmill.stages.importing.agentnet:AgentNetLayout",
        "android-control": "trajmill.stages.importing.android_control:AndroidControlLayout",
        "gui-odyssey": "trajmill.stages.importing.gui_odyssey:GuiOdysseyLayout",
        "aitz": "trajmill.stages.importing.aitz:AitzLayout",
    },
)


def layout_spec(kind: str) -> LayoutSpec:
    """The spec of a layout.

    Raises:
        BadInputError: there is no such layout; the nearest one is named.
    """
    return LAYOUTS.default_spec(kind, LayoutSpec)
