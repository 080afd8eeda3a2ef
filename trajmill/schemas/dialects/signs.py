"""Recognises the dialect of a reply by its typical forms, the signs.

Dialects share tools and names with different meanings: the same numbers are pixels in one and thousandths in another.
So a reply with the signs of another dialect is refused, because it would be parsed wrongly.
"""

from __future__ import annotations

import re
from typing import Final

GUI_OWL_V3: Final = "gui-owl"
GUI_OWL_1_5: Final = "gui-owl-1.5"
QWEN2_5_VL: Final = "qwen2.5-vl"
"""A reply without signs; a call alone may be of any dialect."""
QWEN3_VL: Final = "qwen3-vl"
READ_ALOUD: Final = "read-aloud"
UI_TARS: Final = "ui-tars"

_WRITERS = {
    "click": GUI_OWL_V3,
    "drag": GUI_OWL_V3,
    "left_click": f"{QWEN2_5_VL}, {QWEN3_VL} or {GUI_OWL_1_5}",
    "left_click_drag": f"{QWEN2_5_VL}, {QWEN3_VL} or {GUI_OWL_1_5}",
    "triple_click": f"{QWEN3_VL} or {GUI_OWL_1_5}",
    "hscroll": f"{QWEN3_VL} or {GUI_OWL_1_5}",
    "interact": GUI_OWL_1_5,
}
"""By name of an action that only some dialects have, these dialects."""
_CALL = "<tool_call>"
_SPOKEN_PLACE = re.compile(r"<do> \w+ <x\d+> <y\d+>")
_CONCLUSION = re.compile(r"</tool_call>\s*(?:Conclusion:|<conclusion>)")
_UI_TARS_CALL = re.compile(
    r"^Action:[ \t]*(?:click|left_double|right_single|long_press|drag|hotkey|type|scroll|open_app|press_home|press_back"
    r"|wait|finished|call_user)\(",
    re.MULTILINE,
)


def dialect_seen_in(text: str) -> str:
    """The dialect whose signs a reply has; empty if it may be of several."""
    before, call, after = text.partition(_CALL)
    # The typed text of a UI-TARS call may contain the start of a JSON call, which otherwise begins a line.
    if _UI_TARS_CALL.search(before) and not (call and before.rstrip(" \t").endswith("\n")):
        return UI_TARS
    if not call:
        return READ_ALOUD if _SPOKEN_PLACE.search(before) else ""
    if _CONCLUSION.search(after):
        return GUI_OWL_V3
    before = before.strip()
    if before.startswith("Action:"):
        return GUI_OWL_1_5
    return QWEN3_VL if before.startswith("Thought:") and "\nAction:" in before else ""


def unknown_action(tool: str, name: str) -> str:
    """One line about a name that a dialect's tool does not have."""
    writer = _WRITERS.get(name)
    return f"{tool} has no action {name!r:.40}" + (f" here; so writes {writer}" if writer else "")
