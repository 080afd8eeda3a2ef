"""How good the judge by app graphs is on live pages: precision and recall over attempts of mixed quality.

`python -m benchmarks.live_judge` starts Chromium, explores the three pages of `live_pages/`, makes queries from the
graphs, and attempts each query in many ways: right, cut short, with wrong values, with steps left out or added, at
random. Two checks say who is right, and the judge reads neither: the environment's own check of the last screen, and
the state of the page, which the page itself reports to the server, compared with the state after a right walk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread
from typing import NamedTuple

from benchmarks.live_attempts import ATTEMPTS, PathWalker, attempted_path
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Platform, Query, Split
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.environments.kinds import BrowserSpec
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.graphs.base import AppGraph, SlotKind
from trajmill.stages.graphs.explore.base import ExploreBounds, unexplored
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Exploration
from trajmill.stages.graphs.explore.journal import ExploreJournal
from trajmill.stages.graphs.operations import take
from trajmill.stages.metrics.intervals import wilson
from trajmill.stages.queries.base import Candidate, GrammarWriter, draft
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts

PAGES = ("workshop", "booking", "settings")
ORIGIN = Origin(round=1, run_id="benchmark", code_version="benchmark")
TYPED = ("Lathe", "Mill", "Grinder")
"""Values for every field; two pages show such words elsewhere, too, where they are no entered value."""


class PageServer(ThreadingHTTPServer):
    """Serves the pages, and keeps the last state that each attempt reported."""

    def __init__(self) -> None:
        """Serve on any free port of this machine."""
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(Path(__file__).parent / "live_pages")))
        self.states: dict[str, object] = {}

    def url(self, page: str) -> str:
        """The address of a page."""
        return f"http://127.0.0.1:{self.server_port}/{page}.html"


class _Handler(SimpleHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, PageServer)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.states[self.path.partition("?")[2]] = json.loads(body)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serving() -> Iterator[PageServer]:
    """Serve the pages until the block ends."""
    server = PageServer()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def explored(page: str, url: str, concurrency: int) -> AppGraph:
    """The graph of a page, as `trajmill graph explore` makes it; its fields get values that a user would type."""
    app = unexplored(page, Platform.WEB, title=f"the {page} page", start_state={"url": url})
    pool = EnvironmentPool(BrowserSpec().factory(Platform.WEB), concurrency)
    deny_list = packaged_deny_list()
    with TemporaryDirectory() as folder:
        journal = ExploreJournal(Path(folder) / "journal.jsonl", app)
        exploration = Exploration(pool, app, ExploreBounds(), deny_list, journal, lambda seen: None)
        try:
            found = await exploration.run(concurrency)
        finally:
            await pool.close()
    graph = GraphBuilder(app, found.book, found.trials, deny_list).build({})
    pages = {
        name: spec.model_copy(
            update={
                "slots": {
                    each: slot.model_copy(update={"values": TYPED}) if slot.kind is SlotKind.FIELD else slot
                    for each, slot in spec.slots.items()
                }
            }
        )
        for name, spec in graph.pages.items()
    }
    return graph.model_copy(update={"pages": pages})


async def queries_of(graph: AppGraph, most: int, seed: int) -> list[Query]:
    """Queries of a graph, two of each task where it has two."""
    by_task = samples_by_task(graph, seed)
    tasks = Random(seed).sample(list(by_task), len(by_task))
    samples = [sample for task in tasks for sample in by_task[task][:2]]
    wanted = [Candidate(RouteGoal(sample), Split.TRAIN, False, seed) for sample in samples[:most]]
    return [await draft(each, GrammarWriter(), ORIGIN) for each in wanted]


class Tried(NamedTuple):
    """An attempt, and who says that it did what its query asks."""

    kind: str
    episode: Episode
    screens: dict[str, Observation]
    on_screen: bool
    """By the environment's own check."""
    in_state: bool
    """By the state of the page."""


def detour_on(graph: AppGraph) -> tuple[PathStep, ...]:
    """The steps from the first page of a graph to another one and back; none if no page leads straight back."""
    for there in graph.pages[graph.start].transitions:
        for back in graph.pages[there.to].transitions if there.to in graph.pages else ():
            if there.to != graph.start == back.to and not (there.slots or there.after or back.slots or back.after):
                return (*take(graph, graph.start, there), *take(graph, there.to, back))
    return ()


async def attempts_at(
    graph: AppGraph,
    queries: Sequence[Query],
    server: PageServer,
    concurrency: int,
    seed: int,
    kinds: Sequence[str] = ATTEMPTS,
) -> list[Tried]:
    """Attempts of these kinds at each query; a query whose right walk does not meet its goal is left out."""
    rng, planned = Random(seed), dict[str, tuple[str, Query]]()
    for query in queries:
        others = [other for other in queries if other.path != query.path]
        for kind in kinds:
            path = attempted_path(kind, query, others, detour_on(graph), rng)
            if path is not None:
                key = f"attempt={len(planned)}"
                start = json.loads(query.start_state)
                start_state = json.dumps({**start, "url": f"{start['url']}?{key}"})
                planned[key] = kind, query.model_copy(update={"path": path, "start_state": start_state})
    by_query = {query.query_id: query for query in queries}
    done: dict[str, FinishedAttempt] = {}

    async def record(finished: FinishedAttempt) -> None:
        if finished.failure is None:
            done[json.loads(finished.episode.query.start_state)["url"].partition("?")[2]] = finished

    attempts = [
        Attempt(query, Purpose.TRAIN, number, seed + number) for number, (_, query) in enumerate(planned.values())
    ]
    factory = BrowserSpec().factory(Platform.WEB)
    try:
        await run_attempts(attempts, PathWalker, factory, Limits(), ORIGIN, record, concurrency)
    finally:
        await factory.close()
    right = {
        planned[key][1].query_id: server.states[key]
        for key, finished in done.items()
        if planned[key][0] == ATTEMPTS[0] and finished.episode.trajectory.reward == 1.0
    }
    return [
        Tried(
            planned[key][0],
            finished.episode.model_copy(update={"query": by_query[finished.episode.query.query_id]}),
            finished.screens,
            finished.episode.trajectory.reward == 1.0,
            server.states[key] == right[finished.episode.query.query_id],
        )
        for key, finished in done.items()
        if finished.episode.query.query_id in right
    ]


class Judged(NamedTuple):
    """An attempt and the decision of the judge."""

    tried: Tried
    correct: bool | None
    """None if it stays unjudged."""
    reasons: str


async def judged(tried: Sequence[Tried], graph: AppGraph) -> list[Judged]:
    """The decisions of the graph judge."""
    judge = annotated_judge({graph.app: graph})
    screens = ObservedScreens({key: value for each in tried for key, value in each.screens.items()})
    found = await judge_episodes([each.episode for each in tried], judge, screens, ORIGIN)
    failed = {failure.input_id: failure.message for failure in found.failures}
    return [
        Judged(
            each,
            episode.judgement.correct if episode.judgement else None,
            next((verdict.reason for verdict in episode.trajectory_verdicts if not verdict.correct), "")
            or failed.get(episode.trajectory.trajectory_id, ""),
        )
        for each, episode in zip(tried, found.episodes, strict=True)
    ]


async def measure(most: int, concurrency: int, seed: int) -> list[Judged]:
    """The judged attempts on all pages."""
    found: list[Judged] = []
    with serving() as server:
        for page in PAGES:
            graph = await explored(page, server.url(page), concurrency)
            queries = await queries_of(graph, most, seed)
            found += await judged(await attempts_at(graph, queries, server, concurrency, seed), graph)
    return found


def table(name: str, results: Sequence[Judged]) -> str:
    """One line: precision and recall against both checks; what stays unjudged counts as not called Correct."""
    parts = [f"{name:14} {len(results):4} {sum(each.correct is None for each in results):9}"]
    for truths in ([each.tried.on_screen for each in results], [each.tried.in_state for each in results]):
        counts = Counter(zip([each.correct is True for each in results], truths, strict=True))
        right, wrong, missed = counts[True, True], counts[True, False], counts[False, True]
        parts.append(f"{_rate(right, right + wrong)} {_rate(right, right + missed)}")
    return "   ".join(parts)


def _rate(part: int, whole: int) -> str:
    if not whole:
        return " " * 27
    low, high = wilson(part, whole)
    return f"{part / whole:.3f} ({low:.3f}-{high:.3f}) n={whole:<4}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=12, help="most queries of each page")
    parser.add_argument("--concurrency", type=int, default=2, help="browsers at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--errors", type=int, default=0, help="wrong decisions to print")
    arguments = parser.parse_args()
    results = asyncio.run(measure(arguments.queries, arguments.concurrency, arguments.seed))
    print("attempts          n  unjudged   against the last screen: precision, recall   against the page's state: same")
    for page in PAGES:
        print(table(page, [each for each in results if each.tried.episode.query.apps == (page,)]))
    for kind in ATTEMPTS:
        print(table(kind, [each for each in results if each.tried.kind == kind]))
    print(table("all together", results))
    wrong = (each for each in results if (each.correct is True) != each.tried.in_state)
    for each in islice(wrong, arguments.errors):
        query = each.tried.episode.query
        print(f"\n{each.tried.kind}: {query.instruction}\n  {query.goal}\n  judged {each.correct}: {each.reasons}")
        print(f"  on screen {each.tried.on_screen}, in state {each.tried.in_state}")
        for step in each.tried.episode.steps:
            print(f"    {step.action}")


if __name__ == "__main__":
    main()
