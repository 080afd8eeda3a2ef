"""Suites, the named sets of MiniWoB++ pages; `pages.json` lists the pages that work."""

from __future__ import annotations

from importlib.resources import files

from pydantic import TypeAdapter

from trajmill.schemas.record import Record
from trajmill.stages.environments.miniwob.spec import SuiteName

_BASIC = (
    "choose-list",
    "click-button",
    "click-button-sequence",
    "click-checkboxes",
    "click-checkboxes-transfer",
    "click-collapsible",
    "click-dialog",
    "click-dialog-2",
    "click-link",
    "click-option",
    "click-tab",
    "click-tab-2-easy",
    "click-test",
    "click-test-2",
    "click-test-transfer",
    "click-widget",
    "enter-password",
    "enter-text",
    "enter-text-dynamic",
    "focus-text",
    "focus-text-2",
    "login-user",
    "unicode-test",
)
_DEBUG = ("click-test", "enter-text", "click-dialog")


class PageReport(Record):
    """The survey's result for one page."""

    page: str
    works: bool
    """Whether it starts without an error and equal seeds show equal screens."""
    reason: str = ""
    """Why it does not work."""
    varies: bool = False
    """Whether another seed shows another screen."""
    fields: bool = False
    """Whether the wheel can read the fields of its instruction."""
    pressable: int = 0
    """How many elements can be pressed at the first seed; a page without any needs keys or drags."""
    decided: bool = False
    """Whether a few blind presses end the episode."""


def known_pages() -> tuple[PageReport, ...]:
    """The reports of the last survey, in order of the pages' names.

    `python -m trajmill.stages.environments.miniwob.survey` writes them again.
    """
    text = files(__package__).joinpath("pages.json").read_text(encoding="utf-8")
    return TypeAdapter(tuple[PageReport, ...]).validate_json(text)


def suite_pages(suite: SuiteName) -> tuple[str, ...]:
    """The pages of a suite.

    `all` has every page that works; `basic` the 23 pages that presses and short texts solve, which is all that the
    embedded policy can do; `debug` three of those.
    """
    match suite:
        case "all":
            return tuple(report.page for report in known_pages() if report.works)
        case "basic":
            return _BASIC
        case "debug":
            return _DEBUG
