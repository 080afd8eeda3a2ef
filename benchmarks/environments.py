"""Every environment under load: resets, steps per second, memory and processor time by instances, and failures.

Run: `python -m benchmarks.environments [NAME ...] [--quick]`, with names from the list of `--help`, or `desktop` for
all of that kind; every environment without any. Prints one Markdown table as its rows come. A row for each number of
instances: the median of resets with all instances at once, then steps that end no episode, by all instances at once.
The last row of an environment: whole episodes over the pool, as a round makes them, by the reference agent where a
query has an annotated path, else a few presses. Tries that the environment has spoilt are counted by failure class;
that a task was not done is none of them. Android is the tests' stand-in, simulated phones behind the adb protocol: what
it takes is ours and theirs together. All but the simulated ones need `make system-deps`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from benchmarks.environment_load import Bounds, Tally, count_failures, measure
from benchmarks.environment_subjects import SUBJECTS, Subject, agent_for
from trajmill.schemas.errors import EnvironmentFailure

_INSTANCES = (1, 4, 8, 16)
_SECONDS_PER_ROW = 600.0
_MIB = 2**20
_HEAD = ("environment", "instances", "reset s", "steps/s in all", "MiB per instance", "CPU s per step", "failures")


class Scale(NamedTuple):
    """How much is measured."""

    seconds: float
    """Of steps, for each row."""
    episodes: int


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help=", ".join(SUBJECTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps and episodes")
    arguments = parser.parse_args()
    for wanted in arguments.name:
        if not any(_is(name, wanted) for name in SUBJECTS):
            parser.error(f"there is no environment {wanted!r}; choose from {', '.join(SUBJECTS)}")
    scale = Scale(1.0, 20) if arguments.quick else Scale(10.0, 200)
    _print_row(_HEAD)
    _print_row("---" for _ in _HEAD)
    for name, subject in SUBJECTS.items():
        if not arguments.name or any(_is(name, wanted) for wanted in arguments.name):
            try:
                with subject() as made:
                    _print_subject(made, scale)
            except EnvironmentFailure as error:
                _print_row((name, "", "", "", "", "", f"left out: {error}"))


def _is(name: str, wanted: str) -> bool:
    """Whether `desktop-office` is wanted: by its name, or by `desktop`, which is all of its kind."""
    return f"{name}-".startswith(f"{wanted}-")


def _print_subject(subject: Subject, scale: Scale) -> None:
    """Its rows; more instances than those that failed are not tried."""
    for instances in _INSTANCES:
        _tell(f"{subject.title}: {instances} at once")
        try:
            cells = asyncio.run(_load(subject, instances, scale))
        except (EnvironmentFailure, OSError) as error:
            words = str(error) or f"not done within {_SECONDS_PER_ROW:g} s"
            _print_row((subject.title, str(instances), "", "", "", "", words))
            break
        _print_row((subject.title, str(instances), *cells, ""))
    if subject.episodes:
        _tell(f"{subject.title}: {scale.episodes} episodes")
        tally = asyncio.run(_episodes(subject, scale))
        _print_row((subject.title, str(_INSTANCES[-1]), "", "", "", "", _words(tally, scale)))


async def _load(subject: Subject, instances: int, scale: Scale) -> tuple[str, ...]:
    async with asyncio.timeout(_SECONDS_PER_ROW):
        row = await measure(subject.make(), subject.query, instances, Bounds(scale.seconds), subject.move)
    return (
        f"{row.reset_seconds:.2g}",
        f"{row.steps_per_second:,.1f}",
        f"{row.bytes_per_instance / _MIB:.0f}",
        f"{row.cpu_seconds_per_step:.2g}",
    )


async def _episodes(subject: Subject, scale: Scale) -> Tally:
    make_agent = partial(agent_for, subject)
    return await count_failures(subject.make(), subject.episodes, make_agent, scale.episodes, _INSTANCES[-1])


def _words(tally: Tally, scale: Scale) -> str:
    tries = ", ".join(f"{count} {name}" for name, count in sorted(tally.failed_tries.items())) or "none"
    return (
        f"{scale.episodes} episodes in {tally.seconds:.0f} s: failed tries {tries}; {tally.lost} lost, "
        f"{tally.rewarded} rewarded"
    )


def _print_row(cells: Iterable[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
