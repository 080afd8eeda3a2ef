"""The explicit instruction of a path, which names every page and operation (GUI-Owl 6.2, step 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.annotations import PageMetadata, PathMetadata, SlotValue
from trajmill.stages.queries.templates import tidy


def explicit_instruction(metadata: PathMetadata) -> str:
    """Name every page and every operation of the path, in order."""
    kind = "app" if metadata.platform is Platform.PHONE else "program"
    press = "tap" if metadata.platform is Platform.PHONE else "click"
    steps: list[str] = []
    for app_name, pages in groupby(metadata.pages, key=lambda page: page.app_name):
        steps.append(f"open the {app_name} {kind}")
        steps += [operation for page in pages for operation in operations(page, press)]
    return tidy(listed(steps))


def operations(page: PageMetadata, press: str) -> Iterator[str]:
    """The operations on a page, in order; `press` is the platform's verb, `tap` or `click`."""
    for setting in page.settings:
        yield _operation(setting, press)
    if page.leave_by:
        yield f'{press} "{page.leave_by}"'


def _operation(setting: SlotValue, press: str) -> str:
    value = setting.value
    if setting.carried_from:
        value = f"the {setting.name.replace('_', ' ')} from {setting.carried_from}"
    match setting.kind:
        case "list":
            return f"choose {value}"
        case "choice" | "stepper":
            return f"set {setting.label} to {value}"
        case "switch" | "checkbox":
            return f"turn {value} {setting.label}"
        case "field" | "search":
            quoted = value if setting.carried_from else f'"{value}"'
            return f"type {quoted} into {setting.label}"
        case _:
            return f'{press} "{setting.label}"'


def listed(words: Sequence[str]) -> str:
    """Join words by commas, the last one by `and`."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
