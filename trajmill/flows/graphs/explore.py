"""Explores an app of the configuration, and writes its graph with the pictures of its pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import Observation
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.explore.base import ExploredApp
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Exploration, Explored
from trajmill.stages.graphs.explore.journal import ExploreJournal
from trajmill.stages.graphs.file import read_graph, write_graph
from trajmill.stages.graphs.merge import keep_annotations
from trajmill.stages.graphs.plain_does import with_plain_does

if TYPE_CHECKING:
    from PIL.Image import Image


class ExploreReport(NamedTuple):
    path: Path
    graph: AppGraph
    explored: Explored


class GraphFiles(NamedTuple):
    graph: Path

    @property
    def journal(self) -> Path:
        """The journal of what was tried, from which the next call continues."""
        return self.graph.with_suffix(".journal.jsonl")

    def picture(self, screen_id: str) -> Path:
        return self.graph.with_suffix(".screens") / f"{screen_id}.png"


def explore_app(
    config: Config,
    name: str,
    out: Path | None = None,
    progress: Callable[[int, int], None] = lambda pages, trials: None,
) -> ExploreReport:
    """Explore an app within the bounds of `[explore]`; a second call continues.

    What people wrote in the file of the graph stays.

    Args:
        config: the configuration.
        name: an app of `[explore.apps]`.
        out: the YAML file; in the folder of `[explore]` if None.
        progress: called with the numbers of pages and trials so far.

    Raises:
        BadInputError: the app is unknown, or its files are wrong.
        TrajmillError: the app does not start.
    """
    app = config.explore.app(name, config.environment.kind)
    files = GraphFiles(out or config.explore.file(name))
    old = read_graph(files.graph) if files.graph.exists() else None
    explored = asyncio.run(_explore(config, app, files, progress))
    builder = GraphBuilder(app, explored.book, explored.trials, packaged_deny_list())
    pictures = {page.first.screen_id: files.picture(page.first.screen_id) for page in explored.book.pages}
    folder = files.graph.parent
    graph = builder.build({name: str(at.relative_to(folder)) for name, at in pictures.items() if at.exists()})
    if old is not None:
        graph = keep_annotations(graph, old, builder.screens_by_page)
    graph = with_plain_does(graph)
    write_graph(graph, files.graph)
    return ExploreReport(files.graph, graph, explored)


async def _explore(
    config: Config, app: ExploredApp, files: GraphFiles, progress: Callable[[int, int], None]
) -> Explored:
    def keep(seen: Observation) -> None:
        picture = files.picture(seen.screen.screen_id)
        if not picture.exists():
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(seen.screen.encode())

    pool = EnvironmentPool(config.environment.factory(app.platform), config.explore.instances)
    journal = ExploreJournal(files.journal, app)
    try:
        exploration = Exploration(pool, app, config.explore, packaged_deny_list(), journal, keep)
        return await exploration.run(config.explore.instances, progress)
    finally:
        await pool.close()


def picture_files(graph: AppGraph, folder: Path) -> dict[str, Path]:
    """By page, the existing file of its screenshot. Raises BadInputError if a picture lies outside the folder."""
    files = {name: folder / page.screenshot for name, page in graph.pages.items() if page.screenshot}
    for name, file in files.items():
        if not file.resolve().is_relative_to(folder.resolve()):
            raise BadInputError(f"{graph.pages[name].screenshot}: pictures must lie in the folder of the graph")
    return {name: file for name, file in files.items() if file.exists()}


@contextmanager
def open_picture(file: Path) -> Iterator[Image]:
    """Open a screenshot of a graph. Raises BadInputError if it is no picture."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            yield image
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise BadInputError(f"{file}: it is no picture; explore again, or remove `screenshot`") from error
