"""Pathways per program and per second of the deep-search chain, in real programs and in the simulated desktop.

Run: `python -m benchmarks.pathways [PROGRAM ...] [--quick]` with programs of `stages/queries/pathways/programs.yaml`,
or `simulated`; without any, the simulated desktop and all of the packaged ones. Real programs need `make system-deps`
and the extra `desktop`. A walk ends after 240 seconds.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import EndKind
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import load_world
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.queries.pathways.programs import (
    PathwayProgram,
    WalkBounds,
    WalkResult,
    packaged_programs,
    read_programs,
)
from trajmill.stages.queries.pathways.search import deep_search

_DEFAULT = ("simulated", "galculator", "pcmanfm", "mousepad", "libreoffice-writer", "libreoffice-calc")
_SECONDS, _QUICK_SECONDS = 240.0, 24.0
_ORIGIN = Origin(round=0, run_id="benchmark", code_version="benchmark")
_KINDS = (EndKind.MENU, EndKind.MENU_ITEM, EndKind.DIALOG, EndKind.TAB, EndKind.PAGE)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="*", default=_DEFAULT)
    parser.add_argument("--quick", action="store_true", help="a tenth of the time for each walk")
    arguments = parser.parse_args()
    bounds = WalkBounds(seconds=_QUICK_SECONDS if arguments.quick else _SECONDS)
    asyncio.run(_print_walks(tuple(arguments.program), bounds))


async def _print_walks(names: tuple[str, ...], bounds: WalkBounds) -> None:
    """A row for each walk."""
    kinds = " ".join(f"{kind:>9}" for kind in _KINDS)
    print(f"{'program':20} {'pathways':>8} {'per s':>7} {'s':>6} {'steps':>6} {'resets':>6} {'failed':>6} {kinds}")
    if "simulated" in names:
        world = load_world()
        factory = SimulatedFactory(world, Platform.DESKTOP, FaultRates(popup=0.0))
        await _measure(factory, [_simulated(app.app, app.name) for app in world.apps_on(Platform.DESKTOP)], bounds)
    real = tuple(name for name in names if name != "simulated")
    if real:
        await _measure(_desktops(), read_programs(packaged_programs(), real), bounds)


async def _measure(factory: EnvironmentFactory, programs: Sequence[PathwayProgram], bounds: WalkBounds) -> None:
    try:
        for program in programs:
            _print(program.name, await deep_search(factory, program, bounds, packaged_deny_list(), _ORIGIN))
    finally:
        await factory.close()


def _print(name: str, walked: WalkResult) -> None:
    found, tally = len(walked.pathways), walked.tally
    kinds = Counter(pathway.end_kind for pathway in walked.pathways)
    print(
        f"{name:20} {found:8} {found / tally.seconds:7.1f} {tally.seconds:6.1f} {tally.steps:6} {tally.resets:6}",
        f"{len(walked.failures):6} {' '.join(f'{kinds[kind]:9}' for kind in _KINDS)}",
        flush=True,
    )


def _simulated(app: str, title: str) -> PathwayProgram:
    opening = PathStep(page=f"{app}.start", operation="double_tap", target=f"launcher/{app}")
    return PathwayProgram(
        name=f"simulated {app}",
        title=title,
        platform=Platform.DESKTOP,
        start_state="{}",
        opening=(opening,),
        presses_commands=True,
    )


def _desktops() -> EnvironmentFactory:
    from trajmill.stages.environments.desktop.environment import LocalDesktops
    from trajmill.stages.environments.desktop.task import packaged_tasks

    return LocalDesktops(packaged_tasks())


if __name__ == "__main__":
    main()
