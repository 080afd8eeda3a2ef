"""Explores an app and writes its graph with pictures; walks, annotates and draws a graph."""

from __future__ import annotations

import asyncio
import base64
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import networkx as nx
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image, UnidentifiedImageError

from trajmill.flows.configuration.config import Config, model_of
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.serving.models_ready import models_ready
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Point, Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Platform
from trajmill.stages.annotation.annotate import AnnotatedGraph, Annotation, Annotators
from trajmill.stages.annotation.base import explored_words
from trajmill.stages.annotation.describer import PageDescriber, SlotNamer
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.simulated.app_files.loader import Mistake
from trajmill.stages.graphs.base import OUTSIDE, AppGraph, Mark
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Exploration, Explored, Progress
from trajmill.stages.graphs.explore.journal import ExploreJournal
from trajmill.stages.graphs.explore.walker import Budget
from trajmill.stages.graphs.file import read_graph, read_graph_file, write_graph
from trajmill.stages.graphs.merge import keep_annotations
from trajmill.stages.graphs.network import network
from trajmill.stages.graphs.verify import EdgeState, VerifiedEdge, verify_graph
from trajmill.stages.models.spec import OpenEndpoints
from trajmill.warehouse.store.base import local_folder


class ExploreReport(NamedTuple):
    path: Path
    graph: AppGraph
    explored: Explored
    left: dict[str, int]
    """By name of a page, the trials that are left on it."""
    denied: tuple[str, ...]
    """Names of what was not pressed because it may destroy something."""


def journal_of(graph: Path) -> Path:
    """The journal of what was tried, from which the next call continues."""
    return graph.with_suffix(".journal.jsonl")


def explore_app(
    config: Config,
    name: str,
    out: Path | None = None,
    progress: Progress = lambda pages, tried, left: None,
    resume: bool = False,
    may_destroy: bool = False,
) -> ExploreReport:
    """Explore an app within the bounds of `[explore]` into file `out`; a second call continues, and keeps edits.

    `resume` refuses to begin anew. Raises BadInputError (the app is unknown, or its files are wrong), TrajmillError
    (the app does not start).
    """
    app = config.explore.app(name, config.environment.kind)
    file = out or config.explore.file(name)
    old = read_graph(file) if file.exists() else None
    if resume and not journal_of(file).exists():
        raise BadInputError(f"{journal_of(file)}: there is no such file, so nothing to resume; leave out --resume")
    denied = packaged_deny_list(may_destroy)

    def picture_of(screen_id: str) -> Path:
        return file.with_suffix(".screens") / f"{screen_id}.png"

    def keep(seen: Observation) -> None:
        picture = picture_of(seen.screen.screen_id)
        if not picture.exists():
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(seen.screen.encode())

    async def explore() -> Explored:
        journal = ExploreJournal(journal_of(file), app)
        async with _pool(config, app.platform) as pool:
            exploration = Exploration(pool, app, config.explore, denied, journal, keep)
            return await exploration.run(config.explore.instances, progress)

    explored = asyncio.run(explore())
    builder = GraphBuilder(app, explored.book, explored.trials, denied)
    pictures = {page.first.screen_id: picture_of(page.first.screen_id) for page in explored.book.pages}
    graph = builder.build({name: str(at.relative_to(file.parent)) for name, at in pictures.items() if at.exists()})
    if old is not None:
        outdated = frozenset({Mark.IDLE, *((Mark.DESTRUCTIVE,) if may_destroy else ())})
        graph = keep_annotations(graph, old, builder.screens_by_page, outdated)
    write_graph(graph, file)
    elements = [each for page in graph.pages.values() for each in page.elements.values()]
    names = (each.name for each in elements if Mark.DESTRUCTIVE in each.marks)
    left_out = tuple(name for name in dict.fromkeys(names) if not packaged_deny_list(may_destroy=True).search(name))
    left = {builder.names[number]: count for number, count in explored.left.items()}
    return ExploreReport(file, graph, explored, left, left_out)


@asynccontextmanager
async def _pool(config: Config, platform: Platform) -> AsyncIterator[EnvironmentPool]:
    pool = EnvironmentPool(config.environment.factory(platform), config.explore.instances)
    try:
        yield pool
    finally:
        await pool.close()


def opened_pictures(graph: AppGraph, folder: Path, pages: Collection[str]) -> Iterator[tuple[str, Path, Image.Image]]:
    """Yield some pages with a screenshot, its file and the picture. Raises BadInputError: outside, or no picture."""
    files = {name: folder / page.screenshot for name, page in graph.pages.items() if page.screenshot}
    for name, file in files.items():
        if not file.resolve().is_relative_to(folder.resolve()):
            raise BadInputError(f"{graph.pages[name].screenshot}: pictures must lie in the folder of the graph")
    for name in [name for name, file in files.items() if name in pages and file.exists()]:
        try:
            with Image.open(files[name]) as image:
                image.load()
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise BadInputError(f"{files[name]}: it is no picture; explore again, or remove `screenshot`") from error
        yield name, files[name], image


class VerifyReport(NamedTuple):
    edges: list[VerifiedEdge]
    notes: list[Mistake]

    def count(self, state: EdgeState) -> int:
        return sum(edge.state is state for edge in self.edges)


def verify_app(config: Config, path: Path, progress: Callable[[VerifiedEdge], None]) -> VerifyReport:
    """Walk each transition of a graph from its own start state. Raises BadInputError if the file is no graph."""
    file, settings = read_graph_file(path), config.explore

    async def verify() -> list[VerifiedEdge]:
        async with _pool(config, file.graph.platform) as pool:
            budget = Budget(settings.actions, settings.seconds)
            return await verify_graph(file.graph, pool, budget, settings.instances, progress)

    edges, notes = asyncio.run(verify()), []
    for edge in edges:
        if edge.state is not EdgeState.HOLDS:
            transition = file.graph.pages[edge.page].transitions[edge.number]
            what = f"{edge.page}: {transition.by or transition.keys} -> {transition.to}"
            place = ("pages", edge.page, "transitions", edge.number)
            notes.append(file.source.mistake(place, f"{edge.state}: {what}: {edge.reason}"))
    return VerifyReport(edges, notes)


class AnnotateReport(NamedTuple):
    annotated: AnnotatedGraph
    calls: list[ModelCall]
    embedded: tuple[str, ...]


def annotate_file(
    config: Config, path: Path, progress: Callable[[int, int], None] = lambda done, pages: None
) -> AnnotateReport:
    """Fill what is missing in a graph; its file is written after each page, so that a second call continues.

    `progress` gets the numbers of finished and of all pages that miss something. Raises BadInputError: the file is no
    graph, no role has a model, or a model cannot be reached.
    """
    graph, calls, pages_done = read_graph(path), list[ModelCall](), 0
    roles = {"describer": config.models.describer, "writer": config.models.writer}
    asked = {role: name for role, name in roles.items() if name != EMBEDDED}
    if not asked:
        raise BadInputError(
            "models.describer, models.writer: a graph is annotated by models; map one of them to an [endpoints.NAME]"
        )
    origin = Origin(round=0, run_id=f"annotate-{graph.app}", code_version=version("trajmill"))
    in_flight = min(config.endpoints[name].max_in_flight for name in asked.values())
    prompts = prompts_of(config).annotation

    async def annotate() -> AnnotatedGraph:
        async with OpenEndpoints(origin, calls.append) as endpoints:
            models = {role: endpoints.model(model_of(config, name)) for role, name in asked.items()}
            annotators = Annotators(
                PageDescriber(models["describer"], prompts.describer_page) if "describer" in models else None,
                SlotNamer(models["writer"], prompts.writer_slots) if "writer" in models else None,
            )
            annotation = Annotation(graph, explored_words(journal_of(path)), annotators)
            waiting, pictures = annotation.waiting, {}

            def keep(so_far: AppGraph) -> None:
                nonlocal pages_done
                pages_done += 1
                write_graph(so_far, path)
                progress(pages_done, len(waiting))

            progress(0, len(waiting))
            for name, file, image in opened_pictures(graph, path.parent, waiting):
                # The picture is read again when a model needs it.
                picture_id = content_id("picture", file.read_bytes().hex())
                pictures[name] = ScreenHandle(picture_id, Size(*image.size), file.read_bytes)
            return await annotation.run(pictures, in_flight, keep)

    with models_ready(config, local_folder(config.run.root) / "annotate", asked.values()):
        annotated = asyncio.run(annotate())
    return AnnotateReport(annotated, calls, tuple(role for role in roles if role not in asked))


_LARGEST = 900
_WIDTH, _HEIGHT = 200, 150
_ACROSS, _DOWN = 300, 200


class EmbeddedPicture(NamedTuple):
    url: str
    size: Size


class DrawnEdge(NamedTuple):
    """All transitions from one page to another."""

    path: str
    label: str
    leaves: bool


class Drawing(NamedTuple):
    places: dict[str, Point]
    edges: tuple[DrawnEdge, ...]
    width: int
    height: int


def write_graph_page(path: Path, out: Path) -> None:
    """Write the HTML page of a graph. Raises BadInputError if the file is no graph, or a picture is none."""
    graph = read_graph(path)
    pictures = {}
    for name, _, image in opened_pictures(graph, path.parent, graph.pages):
        size, small, data = Size(*image.size), image.convert("RGB"), BytesIO()
        small.thumbnail((_LARGEST, _LARGEST))
        small.save(data, "WEBP", quality=80)
        url = f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"
        pictures[name] = EmbeddedPicture(url, size)
    environment = Environment(
        loader=PackageLoader("trajmill.flows.graphs"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    template = environment.get_template("graph.html.jinja")
    html = template.render(graph=graph, pictures=pictures, drawing=draw_graph(graph), wide=_WIDTH, high=_HEIGHT)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(html, encoding="utf-8")


def draw_graph(graph: AppGraph) -> Drawing:
    whole = network(graph)
    depths = nx.single_source_shortest_path_length(whole, graph.start)
    last = max(depths.values(), default=0)
    columns: dict[int, list[str]] = defaultdict(list)
    for name in whole:
        columns[depths.get(name, last + 1)].append(name)
    places = {
        name: Point(20 + column * _ACROSS, 20 + row * _DOWN)
        for column, names in sorted(columns.items())
        for row, name in enumerate(sorted(names, key=lambda each: each == OUTSIDE))
    }
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    for page, transition in graph.transitions():
        if transition.to != page:
            labels[page, transition.to].append(transition.by or transition.keys)
    edges = tuple(
        DrawnEdge(_path(places[first], places[second]), f"{first} → {second}: {', '.join(by)}", second == OUTSIDE)
        for (first, second), by in labels.items()
    )
    width = max(page.x for page in places.values()) + _WIDTH + 70
    height = max(page.y for page in places.values()) + _HEIGHT + 40
    return Drawing(places, edges, width, height)


def _path(first: Point, second: Point) -> str:
    """A curve from the right edge of one page to the left edge of another; within a column at the right, else below."""
    middle, start = _HEIGHT // 2, first.x + _WIDTH
    if second.x > first.x:
        bend, high, low = (start + second.x) // 2, first.y + middle, second.y + middle
        return f"M{start},{high} C{bend},{high} {bend},{low} {second.x},{low}"
    if second.x == first.x:
        bend, high, low = start + 60, first.y + middle + 20, second.y + middle - 20
        return f"M{start},{high} C{bend},{high} {bend},{low} {start},{low}"
    low = max(first.y, second.y) + _HEIGHT + 30
    start, end = first.x + _WIDTH // 2, second.x + _WIDTH // 2
    return f"M{start},{first.y + _HEIGHT} C{start},{low} {end},{low} {end},{second.y + _HEIGHT}"
