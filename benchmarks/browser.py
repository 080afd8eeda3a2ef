"""MiniWoB++ steps per second beside those of the wheel's own Selenium environment.

Run: `python -m benchmarks.browser [--quick]`. Needs `make system-deps`, and Debian's chromium-driver for the wheel's
own environment. All rows are taken in one run.
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

from benchmarks.environment_load import Bounds, Measurement, measure
from benchmarks.environment_subjects import page_query, press_checkbox
from schemas.query import Query
from stages.environments.base import EnvironmentFactory
from stages.environments.miniwob.environment import MiniWobFactory

_PAGE = "click-checkboxes"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps")
    _against_selenium(40 if parser.parse_args().quick else 400)


async def _measure(factory: EnvironmentFactory, query: Query, instances: int, steps: int) -> Measurement:
    return await measure(factory, query, instances, Bounds(math.inf, steps // instances), press_checkbox)


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


if __name__ == "__main__":
    main()
