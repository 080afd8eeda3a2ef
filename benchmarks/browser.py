"""The browser environments: reset time, steps per second and memory by instances, failures, and MiniWoB++ by Selenium.

Run: `python -m benchmarks.browser [--quick]`. Needs `make system-deps`; the column of the wheel's own environment needs
Debian's chromium-driver too, and is left out without it. All rows are taken in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from benchmarks.browser_memory import browser_bytes
from benchmarks.browser_queries import CARDS, card_query, page_query
from schemas.actions import Click
from schemas.errors import EnvironmentFailure
from schemas.geometry import Size
from schemas.query import Query
from stages.environments.base import Environment, EnvironmentFactory
from stages.environments.browser.environment import BrowserFactory
from stages.environments.miniwob.environment import MiniWobFactory
from stages.environments.pool import EnvironmentPool

_INSTANCES = (1, 4, 8, 16)
_PAGE = "click-checkboxes"
_EPISODE_STEPS = 5
_MIB = 2**20


class Scale(NamedTuple):
    """How much is measured."""

    steps: int
    """In all, at each number of instances."""
    episodes: int
    """Over which failures are counted."""


class Measurement(NamedTuple):
    """One row of the table."""

    reset_seconds: float
    """Median."""
    steps_per_second: float
    """All instances together."""
    bytes_per_instance: int
    """Proportional memory of the browser's processes and its driver."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps and episodes")
    scale = Scale(40, 20) if parser.parse_args().quick else Scale(400, 200)
    with _cards() as url:
        kinds: dict[str, tuple[Callable[[], EnvironmentFactory], Query]] = {
            "browser, 60 cards, 1280x720": (BrowserFactory, card_query(url)),
            f"MiniWoB++ {_PAGE}, 480x630": (MiniWobFactory, page_query(_PAGE)),
        }
        print(f"{'environment':32} {'instances':>9} {'reset s':>8} {'steps/s':>8} {'MiB/instance':>13}")
        for name, (make, query) in kinds.items():
            for instances in _INSTANCES:
                row = asyncio.run(_measure(make(), query, instances, scale.steps))
                memory = row.bytes_per_instance / _MIB
                print(f"{name:32} {instances:9} {row.reset_seconds:8.2f} {row.steps_per_second:8.1f} {memory:13.0f}")
        for name, (make, query) in kinds.items():
            failed = asyncio.run(_failures(make(), query, scale.episodes))
            print(f"{name}: {failed} of {scale.episodes} episodes failed, 8 at once")
    _against_selenium(scale.steps)


async def _measure(factory: EnvironmentFactory, query: Query, instances: int, steps: int) -> Measurement:
    try:
        environments = [await factory() for _ in range(instances)]
        resets = await asyncio.gather(*(_timed_reset(one, query) for one in environments))
        start = time.perf_counter()
        sizes = await asyncio.gather(*(_steps(one, query, steps // instances) for one in environments))
        seconds = time.perf_counter() - start
        memory = browser_bytes()
        for one in environments:
            await one.close()
        return Measurement(statistics.median(resets), sum(sizes) / seconds, memory // instances)
    finally:
        await factory.close()


async def _timed_reset(environment: Environment, query: Query) -> float:
    """Seconds of a second reset: the first one starts the browser."""
    await environment.reset(query, 0)
    start = time.perf_counter()
    await environment.reset(query, 0)
    return time.perf_counter() - start


async def _steps(environment: Environment, query: Query, steps: int) -> int:
    """Presses on what does not end the episode."""
    seen = await environment.reset(query, 0)
    boxes = [element.bounds for element in seen.elements or () if element.role in ("checkbox", "button")][:-1]
    chance = random.Random(0)
    for _ in range(steps):
        x, y = chance.choice(boxes).center
        seen = await environment.step(Click(x=x, y=y))
    return steps


async def _failures(factory: EnvironmentFactory, query: Query, episodes: int) -> int:
    """How many episodes of a few presses ended in a failure of the environment."""
    pool = EnvironmentPool(factory, 8)

    async def episode(number: int) -> bool:
        with suppress(EnvironmentFailure):
            async with pool.lease() as environment:
                size = (await environment.reset(query, number)).screen.size
                for click in _anywhere(size, number):
                    await environment.step(click)
                await environment.score()
            return False
        return True

    try:
        return sum(await asyncio.gather(*(episode(number) for number in range(episodes))))
    finally:
        await pool.close()


def _anywhere(size: Size, seed: int) -> list[Click]:
    chance = random.Random(seed)
    return [Click(x=chance.randrange(size.width), y=chance.randrange(size.height)) for _ in range(_EPISODE_STEPS)]


def _against_selenium(steps: int) -> None:
    """Print MiniWoB++ steps per second beside those of the wheel's own environment."""
    if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
        print("no chromium-driver: the wheel's own Selenium environment is left out (apt-get install chromium-driver)")
        return
    os.environ["SE_OFFLINE"] = "true"  # it would look for a browser on the network first
    print(f"{'instances':>9} {'ours steps/s':>13} {'Selenium steps/s':>17} {'ratio':>6}")
    for instances in (1, 8):
        ours = asyncio.run(_measure(MiniWobFactory(), page_query(_PAGE), instances, steps)).steps_per_second
        theirs = _selenium(instances, max(instances * 5, steps // 4))
        print(f"{instances:9} {ours:13.1f} {theirs:17.1f} {ours / theirs:5.1f}x")


def _selenium(instances: int, steps: int) -> float:
    """Steps per second of the wheel's own environment, one thread for each instance."""
    from miniwob.envs.miniwob_envs import ClickCheckboxesEnv

    environments = [ClickCheckboxesEnv() for _ in range(instances)]
    ready = threading.Barrier(instances + 1)

    def press(environment: ClickCheckboxesEnv) -> None:
        environment.reset(seed=0)
        chance = random.Random(0)
        ready.wait()
        for _ in range(steps // instances):
            where = [float(chance.randrange(5, 20)), float(chance.randrange(55, 100))]
            action = environment.unwrapped.create_action("CLICK_COORDS", coords=where)
            if environment.step(action)[2]:  # its limit of ten seconds ends the episode
                environment.reset(seed=0)

    try:
        with ThreadPoolExecutor(instances) as threads:
            work = [threads.submit(press, environment) for environment in environments]
            ready.wait()
            start = time.perf_counter()
            for each in work:
                each.result()
            seconds = time.perf_counter() - start
    finally:
        for environment in environments:
            environment.close()
    return steps // instances * instances / seconds


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(CARDS)))
        self.end_headers()
        self.wfile.write(CARDS)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _cards() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    main()
