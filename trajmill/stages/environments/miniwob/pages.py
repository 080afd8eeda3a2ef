"""List the MiniWoB++ pages and their suites, without a browser; `pages.json` names the pages that work."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from pydantic import TypeAdapter

from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import Record
from trajmill.stages.environments.kinds import SuiteName

_BASIC = (
    "choose-list", "click-button", "click-button-sequence", "click-checkboxes", "click-checkboxes-transfer",
    "click-collapsible", "click-dialog", "click-dialog-2", "click-link", "click-option", "click-tab",
    "click-tab-2-easy", "click-test", "click-test-2", "click-test-transfer", "click-widget", "enter-password",
    "enter-text", "enter-text-dynamic", "focus-text", "focus-text-2", "login-user", "unicode-test",
)  # fmt: skip
_DEBUG = ("click-test", "enter-text", "click-dialog")


def pages_folder() -> Path:
    """Return the folder of the pages, or raise EnvironmentFailure (`setup`) if the wheel is not installed."""
    spec = find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise EnvironmentFailure("miniwob is not installed; run `pip install 'trajmill[web]'`", FailureClass.SETUP)
    return Path(spec.origin).parent / "html" / "miniwob"


def page_names() -> list[str]:
    return sorted(page.stem for page in pages_folder().glob("*.html"))


def refuse_unknown_pages(names: Sequence[str], key: str) -> None:
    """Raise BadInputError for names in a key of the configuration that are no pages, a line for each."""
    known = page_names()
    mistakes = [
        f"{key}: there is no MiniWoB++ page {name!r}; {instead_of(name, known)}" for name in names if name not in known
    ]
    if mistakes:
        raise BadInputError("\n".join(mistakes))


class PageReport(Record):
    page: str
    works: bool
    reason: str = ""
    varies: bool = False
    fields: bool = False
    pressable: int = 0
    """How many elements can be pressed at the first seed; a page without any needs keys or drags."""
    decided: bool = False


def known_pages() -> tuple[PageReport, ...]:
    """Return the reports of the last survey (`python -m tests.stages.environments.miniwob.survey`)."""
    text = files(__package__).joinpath("pages.json").read_text(encoding="utf-8")
    return TypeAdapter(tuple[PageReport, ...]).validate_json(text)


def suite_pages(suite: SuiteName) -> tuple[str, ...]:
    """Return the pages of a suite: `all` that work, the `basic` 23 with presses and short texts, or `debug`, three."""
    match suite:
        case "all":
            return tuple(report.page for report in known_pages() if report.works)
        case "basic":
            return _BASIC
        case "debug":
            return _DEBUG
