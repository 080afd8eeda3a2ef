"""Checks the conditions of a goal with fixed scripts; the query's selectors and keys are their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Error, Page

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.browser.task.start_and_goal import (
    BrowserGoal,
    BrowserStart,
    Condition,
    DownloadIs,
    StorageIs,
    TextIs,
    UrlIs,
    ValueIs,
)

_TEXT = "(selector) => { const found = document.querySelector(selector); return found ? found.innerText : null; }"
_VALUE = """
(selector) => {
  const found = document.querySelector(selector);
  if (!found) return null;
  return found.type === "checkbox" || found.type === "radio" ? String(found.checked) : String(found.value ?? "");
}
"""


async def goal_holds(goal: BrowserGoal, start: BrowserStart, page: Page, downloads: Mapping[str, Path]) -> bool:
    """Whether all conditions of a goal hold.

    Args:
        goal: goal of the query.
        start: start state of the query; the storage of its origin is read.
        page: the page in front, without an open dialog.
        downloads: files by the names that pages gave them.

    Raises:
        EnvironmentFailure: a selector is not valid CSS (class `task`).
        playwright.async_api.Error: the page is gone.
    """
    for condition in goal.all:
        if not condition.holds(await _actual(condition, start, page, downloads)):
            return False
    return True


async def _actual(condition: Condition, start: BrowserStart, page: Page, downloads: Mapping[str, Path]) -> str | None:
    match condition:
        case UrlIs():
            return page.url
        case TextIs(selector=selector):
            return await _selected(page, _TEXT, selector)
        case ValueIs(selector=selector):
            return await _selected(page, _VALUE, selector)
        case StorageIs(key=key):
            return await _stored(page, start, key)
        case DownloadIs(name=name):
            file = downloads.get(name)
            return file.read_text(encoding="utf-8", errors="replace") if file is not None else None


async def _selected(page: Page, script: str, selector: str) -> str | None:
    try:
        text: str | None = await page.evaluate(script, selector)
    except Error as error:
        if "not a valid selector" in error.message:
            raise EnvironmentFailure(f"goal: {selector!r} is no CSS selector", FailureClass.TASK) from error
        raise
    return text


async def _stored(page: Page, start: BrowserStart, key: str) -> str | None:
    parts = urlsplit(start.url)
    origin = f"{parts.scheme}://{parts.netloc}"
    state = await page.context.storage_state()
    for place in state.get("origins", []):
        if place["origin"] == origin:
            for entry in place["localStorage"]:
                if entry["name"] == key:
                    return entry["value"]
    return None
