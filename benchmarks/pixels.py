"""A tiny vision-language model learns to operate a phone from its screenshots: docs/examples/pixels.toml and variants.

`python -m benchmarks.pixels FOLDER` runs the cells that FOLDER/results.jsonl does not hold yet, one after the other and
with one thread each, and prints the table; a cell that was interrupted goes on where it stopped. `--cells NAME ...`
limits it to some, `--list` names them, `--table` only prints. Each cell is a process of its own, so that its CPU time
is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.process_tree import tree_cpu_seconds
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.policies.commands import make_untrained_policy
from trajmill.schemas.record import Record
from trajmill.schemas.tables.policy_version import RoundSummary, SplitSuccess
from trajmill.stages.environments.kinds import DevicesSpec
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

EXAMPLE: Final = Path(__file__).parents[1] / "docs" / "examples" / "pixels.toml"
_LINES_ABOVE: Final = (
    "Fresh today",
    "Fruit from our garden",
    "Ripe and sweet",
    "Picked by hand",
    "We bring it home",
    "All year round",
    "Small and large",
    "Ask for more",
)
_FRUITS: Final = "      - {kind: list, id: fruits"
_NAMES: Final = "[Ann, Ben, Eva, Tom]"

Changes = dict[str, dict[str, Any]]


class Cell(NamedTuple):
    """One run of the example, or of a variant of it."""

    name: str
    what: str
    seed: int = 0
    blind: bool = False
    changes: Changes = {}
    app: Callable[[str], str] = str
    """Changes the text of the example's app file."""


def with_lines_above(app: str) -> str:
    """The app with lines of text above its first list, so that four of its six rows fit on the screen."""
    lines = "".join(f'      - {{kind: heading, text: "{line}"}}\n' for line in _LINES_ABOVE)
    return app.replace(_FRUITS, lines + _FRUITS, 1)


def with_a_name(app: str) -> str:
    """The app with a field on its last page but one: the name of who gets the order is typed."""
    field = "      - {kind: field, id: person, hint: Name, variable: person}\n      - kind: button\n        id: order\n"
    slot = f"      - {{name: person, page: confirm, widget: person, values: {_NAMES}}}\n    goal:"
    typed = app.replace("      - kind: button\n        id: order\n", field, 1).replace("    goal:", slot, 1)
    typed = typed.replace('place: ""}', 'place: "", person: ""}').replace("place]}]", "place, person]}]")
    typed = typed.replace("place: $place}", "place: $place, person: $person}")
    return re.sub(r'^(      - ".*)"$', r'\1, name {person}"', typed, flags=re.MULTILINE)


_ALONE: Final[Changes] = {"guidance": {"demonstrate": "explorer"}, "rollout": {"episodes_per_round": 960}}
_CLOCK: Final[Changes] = {"environment": {"builtin_apps": ("clock",)}, "train": {"max_updates": 1200}}
_LOOKS: Final[Changes] = {"environment": {"devices": DevicesSpec(orders=70, layouts=False)}}
CELLS: Final = (
    Cell("sees-0", "the example"),
    Cell("alone-0", "without reference paths: the untrained explorer tries, the judge decides", changes=_ALONE),
    Cell("blind-0", "control: pictures are zeros; one round", blind=True, changes={"run": {"rounds": 1}}),
    Cell("sees-1", "the example", 1),
    Cell("sees-2", "the example", 2),
    Cell("looks-0", "dark themes and larger text, in training too", changes=_LOOKS),
    Cell("scrolling-0", "the first list is longer than the screen", app=with_lines_above),
    Cell("typing-0", "a name is typed", app=with_a_name),
    Cell("clock-0", "with an app that comes with trajmill; 1,200 updates a round", changes=_CLOCK),
    Cell("alone-1", "without reference paths", 1, changes=_ALONE),
    Cell("alone-2", "without reference paths", 2, changes=_ALONE),
)


class Result(Record):
    """What one cell gave."""

    cell: str
    rounds: tuple[tuple[SplitSuccess, ...], ...]
    """Success before the first round and after each."""
    seconds: tuple[float, ...]
    """Seconds of each round's stages, from their beginning to their end."""
    training_seconds: tuple[float, ...]
    cpu_seconds: float
    """Of the process and all that it started."""
    is_whole: bool
    """Whether one process did it all; else `cpu_seconds` is that of the last one."""
    load: float
    """Mean number of processes that wanted to run at the end, over 15 minutes."""


def config_of(cell: Cell, folder: Path) -> Config:
    """The configuration of a cell, in a folder of its own."""
    config = load_config(EXAMPLE)
    root = folder / cell.name
    root.mkdir(parents=True, exist_ok=True)
    (app,) = config.environment.model_dump()["apps"]
    own_app = root / "market.yaml"
    own_app.write_text(cell.app(Path(app).read_text(encoding="utf-8")), encoding="utf-8")
    changes: Changes = {
        "run": {"root": root / "data", "name": cell.name, "seed": cell.seed} | cell.changes.get("run", {}),
        "environment": {"apps": (own_app,)} | cell.changes.get("environment", {}),
        **{name: values for name, values in cell.changes.items() if name not in ("run", "environment")},
    }
    sections = {name: getattr(config, name).model_copy(update=values) for name, values in changes.items()}
    policy = config.endpoints[config.models.policy].model_copy(update={"model": root / "untrained"})
    return config.model_copy(update={**sections, "endpoints": {config.models.policy: policy}})


def run_cell(cell: Cell, folder: Path) -> Result:
    """Run all rounds of a cell that are not finished, in this process, and measure."""
    from trajmill.flows.evolve import evolve

    is_whole = not (folder / cell.name).exists()
    config = config_of(cell, folder)
    make_untrained_policy(config, cell.blind)
    evolve(config)
    found = read_rows(open_warehouse(config.run.root), RoundSummary, run_id=config.run_id)
    rounds = sorted(found, key=lambda row: row.round)
    seconds = [{stage.stage: stage.seconds for stage in row.stages} for row in rounds]
    return Result(
        cell=cell.name,
        rounds=(rounds[0].success_before, *(row.success_after for row in rounds)),
        seconds=tuple(sum(each.values()) for each in seconds),
        training_seconds=tuple(each.get("train", 0.0) for each in seconds),
        cpu_seconds=tree_cpu_seconds(),
        is_whole=is_whole,
        load=os.getloadavg()[2],
    )


def results(folder: Path) -> list[Result]:
    """The results so far."""
    file = folder / "results.jsonl"
    return [Result.model_validate_json(line) for line in file.read_text().splitlines()] if file.is_file() else []


def table(found: Iterable[Result]) -> str:
    """Success by cell and round, and what it cost."""
    cells = {cell.name: cell for cell in CELLS}
    lines: list[str] = []
    for result in found:
        if not lines:
            splits = [split.split for split in result.rounds[0]]
            lines += [f"| run | round | {' | '.join(splits)} | CPU minutes | minutes (training), load |"]
            lines += ["|---" * (len(splits) + 4) + "|"]
        for number, success in enumerate(result.rounds):
            cost = f"{'' if result.is_whole else '> '}{result.cpu_seconds / 60:.1f}" if not number else ""
            spent = _spent(result, number) if number else ""
            label = f"{result.cell}: {cells[result.cell].what}" if not number else ""
            lines.append(f"| {label} | {number} | {_in_cells(success)} | {cost} | {spent} |")
    return "\n".join(lines)


def _spent(result: Result, number: int) -> str:
    whole, training = result.seconds[number - 1] / 60, result.training_seconds[number - 1] / 60
    return f"{whole:.1f} ({training:.1f}), {result.load:.0f}"


def _in_cells(success: Sequence[SplitSuccess]) -> str:
    return " | ".join(f"{split.successes} of {split.queries}" for split in success)


def _run_owed(cells: Iterable[Cell], folder: Path) -> None:
    done = {result.cell for result in results(folder)}
    # A model of 600,000 weights is slower with two threads than with one.
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    for cell in cells:
        if cell.name not in done:
            print(f"{time.strftime('%H:%M')} {cell.name}: {cell.what}", flush=True)
            command = [sys.executable, "-m", "benchmarks.pixels", str(folder), "--run", cell.name]
            subprocess.run(command, check=False, env=alone)


def main() -> None:
    """Run what is owed, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [cell.name for cell in CELLS]
    parser.add_argument("folder", type=Path, nargs="?", default=Path("benchmark-data/pixels"))
    parser.add_argument("--cells", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--list", action="store_true", help="name the cells, run nothing")
    parser.add_argument("--table", action="store_true", help="print what is measured, run nothing")
    parser.add_argument("--run", choices=names, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    if asked.list:
        print("\n".join(f"{cell.name}\t{cell.what}" for cell in CELLS))
        return
    folder.mkdir(parents=True, exist_ok=True)
    if asked.run:
        (cell,) = (cell for cell in CELLS if cell.name == asked.run)
        result = run_cell(cell, folder)
        with (folder / "results.jsonl").open("a") as lines:
            lines.write(json.dumps(result.model_dump()) + "\n")
        return
    if not asked.table:
        _run_owed((cell for cell in CELLS if cell.name in asked.cells), folder)
    print(f"\n{table(results(folder))}")


if __name__ == "__main__":
    main()
