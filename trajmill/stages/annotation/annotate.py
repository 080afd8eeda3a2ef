"""Annotates the pages of a graph, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.annotation.base import AnnotatedPage, ExploredWords, Unfilled, page_gaps
from trajmill.stages.annotation.describer import PageDescriber, SlotNamer
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.models.prompts import Prompt, load_prompt


class AnnotationPrompts(NamedTuple):
    describer_page: Prompt
    writer_slots: Prompt


def annotation_prompts(own: Mapping[str, Any]) -> AnnotationPrompts:
    """Read the prompts, of the user by the keys of `[prompts]`; raises BadInputError if a file is unusable."""
    keys = AnnotationPrompts._fields
    return AnnotationPrompts(*(load_prompt("trajmill.stages.annotation", f"{key}-1", own.get(key)) for key in keys))


class Annotators(NamedTuple):
    """The models that annotate; None leaves the gaps that it would fill."""

    describer: PageDescriber | None
    namer: SlotNamer | None


class AnnotatedGraph(NamedTuple):
    graph: AppGraph
    filled: int
    unfilled: tuple[Unfilled, ...]


class Annotation:
    """One call: asks for each page that misses something."""

    def __init__(self, graph: AppGraph, words: ExploredWords, annotators: Annotators) -> None:
        self._graph, self._words, self._annotators = graph, words, annotators
        self._filled = 0
        self._unfilled: list[Unfilled] = []

    @property
    def waiting(self) -> tuple[str, ...]:
        found = []
        for name in self._graph.pages:
            gaps = page_gaps(self._graph, name, self._words)
            if (gaps.for_describer and self._annotators.describer) or (gaps.slots and self._annotators.namer):
                found.append(name)
        return tuple(found)

    async def run(
        self, pictures: Mapping[str, ScreenHandle], in_flight: int, done: Callable[[AppGraph], None]
    ) -> AnnotatedGraph:
        """Annotate all pages, `in_flight` at a time; `done` is called after each page with the graph so far."""
        places = asyncio.Semaphore(in_flight)

        async def work(name: str) -> None:
            async with places:
                gaps, (describer, namer) = page_gaps(self._graph, name, self._words), self._annotators
                if describer is not None and gaps.for_describer:
                    self._take(name, await describer.describe(self._graph, name, gaps, pictures.get(name)))
                if namer is not None and gaps.slots:
                    self._take(name, await namer.name_slots(self._graph, name, gaps))
            done(self._graph)

        await side_by_side(work(name) for name in self.waiting)
        return AnnotatedGraph(self._graph, self._filled, tuple(self._unfilled))

    def _take(self, name: str, annotated: AnnotatedPage) -> None:
        """Take what a model wrote; a title that another page has got meanwhile is left out."""
        pages, page, filled = self._graph.pages, annotated.page, annotated.filled
        others = {other.title.casefold() for each, other in pages.items() if each != name}
        if page.title != pages[name].title and page.title.casefold() in others:
            self._unfilled.append(Unfilled(f"{name}: title", "another page has the title that the model wrote"))
            page, filled = page.model_copy(update={"title": pages[name].title}), filled - 1
        self._graph = self._graph.model_copy(update={"pages": {**pages, name: page}})
        self._filled += filled
        self._unfilled += annotated.unfilled
