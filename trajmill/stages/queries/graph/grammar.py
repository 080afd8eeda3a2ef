"""The embedded writer: a grammar instead of the language model of the paper (6.2, steps 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from random import Random

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.annotations import PageMetadata, PathMetadata, SlotValue
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.graph.base import Brief, Phrasing
from trajmill.stages.queries.graph.phrasing import CLAUSES, draw_phrasing
from trajmill.stages.queries.phrasing_template import parse_template, tidy


class GrammarWriter:
    """Fills the templates of the app files; equal phrasings give equal instructions."""

    @property
    def version(self) -> str:
        """Name and version; stored with every query that it writes."""
        return "grammar-1"

    async def write(self, brief: Brief) -> Written:
        """Both steps; the seed draws the phrasing.

        Raises:
            StageError: no phrasing expresses the wanted values.
            BadInputError: a template cannot be parsed.
        """
        raw = self.synthesise(brief.metadata)
        phrasing = draw_phrasing(brief.task.spec, brief.metadata, brief.heldout, brief.seed)
        return Written(raw, self.refine(raw, brief.metadata, phrasing), phrasing.id, phrasing.said)

    def synthesise(self, metadata: PathMetadata) -> str:
        """Every page and every operation of the path, in order."""
        kind = "app" if metadata.platform is Platform.PHONE else "program"
        press = "tap" if metadata.platform is Platform.PHONE else "click"
        steps: list[str] = []
        for app_name, pages in groupby(metadata.pages, key=lambda page: page.app_name):
            steps.append(f"open the {app_name} {kind}")
            steps += [operation for page in pages for operation in operations(page, press)]
        return tidy(_listed(steps))

    def refine(self, raw: str, metadata: PathMetadata, phrasing: Phrasing) -> str:
        """The expanded template of the phrasing; unlike `raw` it does not name the way."""
        rng = Random(phrasing.seed)
        words = {**phrasing.said, CLAUSES: _clauses(phrasing, rng)}
        return tidy(parse_template(phrasing.template.text, phrasing.task).expand(words, rng))


def _clauses(phrasing: Phrasing, rng: Random) -> str:
    if not phrasing.clauses:
        return ""
    words = [clause.words for clause in phrasing.clauses]
    joined = _listed(words) if rng.random() < 0.5 else ", ".join(words)
    # In the middle of a sentence the clauses have a comma on both sides.
    return f", {joined}" if phrasing.template.text.rstrip().endswith(f"{{{CLAUSES}}}") else f", {joined},"


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


def _listed(words: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
