"""MiniWoB++ steps per second beside those of the wheel's own Selenium environment.

Run: `python -m benchmarks.browser [--quick]`. Needs `make system-deps`, and Debian's chromium-driver for the wheel's
own environment. All rows are taken in one run. In every step both give the DOM's elements and, but for the rows that
say otherwise, a picture of the page: the wheel's is 160x210 pixels, ours by default three times as wide and as high.
Nobody can switch our pictures off; the row without them says what the rest costs.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import NamedTuple
from unittest.mock import patch

from playwright.async_api import CDPSession

from benchmarks.environment_load import Bounds, measure
from benchmarks.environment_subjects import page_query, press_checkbox
from benchmarks.process_tree import tree_cpu_seconds
from trajmill.stages.environments.browser.launch import Viewport
from trajmill.stages.environments.miniwob import environment
from trajmill.stages.environments.miniwob.environment import VIEWPORT, MiniWobFactory

_PAGE = "click-checkboxes"
_SMALL = Viewport(VIEWPORT.size, 1)
_VIEWPORTS = {"pictures of 160x210": _SMALL, "pictures of 480x630": VIEWPORT}
_UNSEEN = {"no pictures": VIEWPORT}


class _Row(NamedTuple):
    """What so many instances do and cost."""

    steps_per_second: float
    """All instances together."""
    cpu_seconds: float
    """Of one step, over all processes."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps")
    _against_selenium(40 if parser.parse_args().quick else 400)


def _against_selenium(steps: int) -> None:
    """Print MiniWoB++ steps per second and processor time beside those of the wheel's own environment."""
    if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
        print("no chromium-driver: the wheel's own Selenium environment is left out (apt-get install chromium-driver)")
        return
    os.environ["SE_OFFLINE"] = "true"  # it would look for a browser on the network first
    print(f"{'':34} {'instances':>9} {'steps/s':>8} {'x':>5} {'CPU ms/step':>12} {'x':>5}")
    for instances in (1, 8):
        for pictures in (True, False):
            theirs = _selenium(instances, max(instances * 5, steps // 4), pictures)
            _print_row(f"Selenium, {'pictures of 160x210' if pictures else 'no pictures'}", instances, theirs, theirs)
            for title, viewport in _VIEWPORTS.items() if pictures else _UNSEEN.items():
                _print_row(f"ours, {title}", instances, _ours(instances, steps, viewport, pictures), theirs)


def _print_row(title: str, instances: int, row: _Row, theirs: _Row) -> None:
    print(
        f"{title:34} {instances:9} {row.steps_per_second:8.1f} {row.steps_per_second / theirs.steps_per_second:5.1f} "
        f"{row.cpu_seconds * 1000:12.1f} {theirs.cpu_seconds / row.cpu_seconds:5.1f}"
    )


def _ours(instances: int, steps: int, viewport: Viewport, pictures: bool) -> _Row:
    bounds = Bounds(math.inf, steps // instances)
    with nullcontext() if pictures else patch.object(environment, "screenshot", _no_picture):
        made = measure(MiniWobFactory(viewport), page_query(_PAGE), instances, bounds, press_checkbox)
        row = asyncio.run(made)
    return _Row(row.steps_per_second, row.cpu_seconds_per_step)


async def _no_picture(session: CDPSession) -> bytes:
    return b""


def _selenium(instances: int, steps: int, pictures: bool) -> _Row:
    """The wheel's own environment, a thread for each instance: processes are slower."""
    from miniwob.envs.miniwob_envs import ClickCheckboxesEnv

    environments = [ClickCheckboxesEnv() for _ in range(instances)]
    ready, go = threading.Barrier(instances + 1), threading.Barrier(instances + 1)

    def press(playing: ClickCheckboxesEnv) -> None:
        playing.reset(seed=0)
        playing.unwrapped.instance.record_screenshots = pictures
        chance = random.Random(0)
        ready.wait()
        go.wait()
        for _ in range(steps // instances):
            where = [float(chance.randrange(5, 20)), float(chance.randrange(55, 100))]
            action = playing.unwrapped.create_action("CLICK_COORDS", coords=where)
            if playing.step(action)[2]:  # its limit of ten seconds ends the episode
                playing.reset(seed=0)

    try:
        with ThreadPoolExecutor(instances) as threads:
            work = [threads.submit(press, one) for one in environments]
            ready.wait()
            start, used = time.perf_counter(), tree_cpu_seconds()
            go.wait()
            for each in work:
                each.result()
            seconds, used = time.perf_counter() - start, tree_cpu_seconds() - used
    finally:
        for one in environments:
            one.close()
    done = steps // instances * instances
    return _Row(done / seconds, used / done)


if __name__ == "__main__":
    main()
