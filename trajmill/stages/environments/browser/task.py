"""The tasks for the browser: start state and goal in JSON, and a user's file of tasks."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.browser.proxy import host_port_of
from trajmill.stages.environments.tasks import TaskLine

_MOST_FILES, _LONGEST_FILE = 8, 1_000_000
Side = Annotated[int, Field(ge=64, le=4096)]
FileName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^/\\\x00-\x1f]+$")]
Content = Annotated[str, Field(max_length=_LONGEST_FILE)]


class BrowserStart(Record):
    url: str
    viewport: tuple[Side, Side] | None = None
    mobile: bool = False
    """Whether the page is shown as on a phone: touch, two screenshot pixels per CSS pixel."""
    files: Annotated[dict[FileName, Content], Field(max_length=_MOST_FILES)] = {}
    """Text files by name, which the agent can choose if a page asks for a file."""
    hosts: tuple[str, ...] = ()
    """Further origins that the pages may reach, e.g. `https://cdn.example.org`."""

    @model_validator(mode="after")
    def _refuse_other_addresses(self) -> BrowserStart:
        for address in (self.url, *self.hosts):
            if host_port_of(address) is None or urlsplit(address).scheme not in ("http", "https"):
                raise ValueError(f"{address!r} is no http address")
        return self


class _TextCondition(Record):
    equals: str | None = None
    """The whole text; white space at its ends is ignored."""
    contains: str | None = None

    @model_validator(mode="after")
    def _refuse_empty_condition(self) -> _TextCondition:
        if self.equals is None and self.contains is None:
            raise ValueError("says neither equals nor contains")
        return self

    def holds(self, text: str | None) -> bool:
        if text is None:
            return False
        return (self.equals is None or text.strip() == self.equals) and (self.contains is None or self.contains in text)


class UrlIs(_TextCondition):
    check: Literal["url"]


class TextIs(_TextCondition):
    check: Literal["text"]
    selector: str


class ValueIs(_TextCondition):
    """The value of the first input that matches a CSS selector; `true` or `false` for a checkbox or a radio button."""

    check: Literal["value"]
    selector: str


class StorageIs(_TextCondition):
    check: Literal["storage"]
    key: str


class DownloadIs(_TextCondition):
    check: Literal["download"]
    name: str


Condition = Annotated[UrlIs | TextIs | ValueIs | StorageIs | DownloadIs, Field(discriminator="check")]


class BrowserGoal(Record):
    """`Query.goal` of a query for the browser, as JSON; without conditions there is no programmatic check."""

    all: tuple[Condition, ...] = ()


class WebTask(TaskLine[BrowserStart, BrowserGoal]):
    platform = Platform.WEB

    goal: BrowserGoal = BrowserGoal()
