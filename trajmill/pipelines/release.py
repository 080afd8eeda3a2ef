"""Makes a release of the training rows of all rounds so far."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from trajmill.pipelines.reading.episodes import hints_of
from trajmill.pipelines.reading.examples import StoredExamples, leaks_of, read_candidates, shown_screens, supervised
from trajmill.pipelines.release_kinds import (
    KindRows,
    ReleasedKind,
    authors_of,
    derived_rows,
    write_kinds,
)
from trajmill.pipelines.release_shards import NO_SHARED_ROWS, SharedRelease, SharedRows, share_rows
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.stages.curate.leaks import LeakCheck, without_leaks, without_rows
from trajmill.stages.curate.near_duplicates import alike_queries, without_alike_screens
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.curate.training_set import Alike, TrainingSet, training_set
from trajmill.stages.derive.rl_steps import compares_members
from trajmill.stages.export.card import CardContents, DroppedRows, LeftOutRows, dataset_card
from trajmill.stages.export.check import check_release
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.rl import RL_FILE
from trajmill.stages.export.selection import write_selection
from trajmill.stages.export.write import ExportedFile, RowsWritten, export_release
from trajmill.warehouse.delta_log import table_versions
from trajmill.warehouse.layout import ONLY_SHARD, Warehouse
from trajmill.warehouse.read import read_batches, read_table
from trajmill.warehouse.releases import read_release, release_names, write_release
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.staging import ShardProgress, plan_items

_RL_TEXTS = ("rl_step_id", "group", "trajectory_id", "prompt", "response")
NO_GROUPS = (
    "There are no RL rows: no group of the round has two rollouts of one query with different rewards to compare "
    "(`rollout.group_size`, `rl.keep_without_spread`)."
)
"""The card's sentence for a release whose groups all have one attempt, or that has no groups."""
_IMAGES_EVERY = 50
_GROUPS_EVERY = 4
"""Every n-th row group and every n-th image is read again before a release gets its manifest."""


class ReleaseRequest(NamedTuple):
    """What a release is made of."""

    name: str
    origin: Origin
    policy: str
    judge: str
    averages: Mapping[str, float] | None
    """Success averages for loss weights; None leaves all weights equal."""
    keep_per_query: int
    keep_per_reply: int | None
    formats: tuple[Exporter, ...]
    previous: str | None
    created_at: str
    heldout_apps: Collection[str]
    left_out: Mapping[str, int]
    """By reason, the number of trajectories and steps that gave no example."""
    curate: CurateSpec = CurateSpec()
    kinds: Collection[str] = ()
    """The derived kinds that it takes, as `made_by` of their rows; other settings have made the others."""


class Released(NamedTuple):
    """The counts of a release."""

    offered: int
    examples: int
    rl_steps: int
    left_out: Mapping[str, int]
    """By reason, how many trajectories, steps and rows are not in it."""


def make_release(warehouse: Warehouse, request: ReleaseRequest, queries: Sequence[Query], staging: Path) -> Released:
    """Curate, check for leaks, export, and write the manifest of a release; `staging` is where progress is counted.

    Raises:
        TrajmillError: held-out data is in the training rows, or a written file has mistakes; nothing is released.
    """
    origin = request.origin
    versions = _versions(warehouse, request.name)
    check = LeakCheck(queries, request.heldout_apps, request.curate)
    sort = supervised(request.keep_per_query)
    candidates = read_candidates(warehouse, origin, sort, check)
    chosen = training_set(
        candidates.rows,
        request.averages,
        request.keep_per_query,
        request.keep_per_reply,
        _alike(queries, request.curate, warehouse),
    )
    clean = without_leaks(chosen.examples, "example_id", leaks_of(chosen.examples))
    longer = candidates.offered - candidates.rows.num_rows + chosen.longer_success
    curated = chosen._replace(examples=clean.rows, longer_success=longer)
    rl_steps = check.rl_steps(read_table(warehouse, "rl_steps", _RL_TEXTS, rounds=[origin.round], run_id=origin.run_id))
    kinds = derived_rows(warehouse, origin, request.kinds, check)
    folder = _emptied(warehouse, request.name)
    is_rl = compares_members(rl_steps.rows)
    exporters = [each for each in request.formats if is_rl or each.table != "rl_steps"]
    progress = ShardProgress(staging, ONLY_SHARD)
    for_examples = [each for each in exporters if each.table == "examples"]
    for_rl = [each for each in exporters if each.table == "rl_steps"]
    rows = curated.examples.num_rows * len(for_examples) + rl_steps.rows.num_rows * len(for_rl)
    plan_items(staging, rows + sum(kind.rows.num_rows for kind in kinds))
    of_round = _write_of_round(warehouse, origin, folder, for_rl, rl_steps.leaking, progress.add)
    stored = partial(StoredExamples, warehouse, origin.run_id, sort.bounds)
    shown = partial(shown_screens, warehouse, origin.run_id, sort.bounds)
    wanted = SharedRelease(origin.run_id, origin.round, curated.examples, stored, shown=shown)
    shared = _write_supervised(warehouse, folder, origin, wanted, for_examples, progress.add)
    released = _write_kinds(warehouse, folder, origin, kinds, progress.add) if shared.files else []
    files = [*of_round, *shared.exported(warehouse, folder)]
    files += [file for kind in released for file in kind.shared.exported(warehouse, folder)]
    leaking = Counter(clean.left_out) + Counter({f"{why} (RL)": n for why, n in rl_steps.left_out.items()})
    for kind in kinds:
        leaking.update({f"{why} ({kind.kind})": rows for why, rows in kind.left_out.items()})
    contents = _card_contents(request, curated, leaking, versions)._replace(
        notes=() if is_rl else (NO_GROUPS,),
        left_out=_left_out_rows([*exporters, *(kind.exporter for kind in released)], shared, released),
        authors=authors_of(curated.examples, kinds),
    )
    card = dataset_card(contents, [*exporters, *(kind.exporter for kind in released)], files)
    (folder / "README.md").write_text(card, encoding="utf-8")
    write_release(
        warehouse,
        request.name,
        tables=versions,
        run_id=origin.run_id,
        round=origin.round,
        code_version=origin.code_version,
        created_at=request.created_at,
        previous=request.previous,
        shards={*shared.files, *(file for kind in released for file in kind.shared.files)},
    )
    left_out = {dropped.reason: dropped.rows for dropped in contents.dropped if dropped.rows}
    return Released(candidates.offered, curated.examples.num_rows, _rows_of(files, RL_FILE), left_out)


def _alike(queries: Sequence[Query], spec: CurateSpec, warehouse: Warehouse) -> Alike:
    """Return the near-duplicate queries and screens that count as one, if configured."""
    instructions = {query.query_id: query.instruction for query in queries}
    return Alike(
        alike_queries(instructions, spec.near_queries) if spec.near_queries else {},
        partial(without_alike_screens, screens=WarehouseScreens(warehouse), bits=spec.near_screens)
        if spec.near_screens
        else None,
    )


def _versions(warehouse: Warehouse, name: str) -> Mapping[str, int]:
    """The tables' versions; those of the manifest if there is one, because other runs commit rows too."""
    return read_release(warehouse, name).tables if name in release_names(warehouse) else table_versions(warehouse)


def _emptied(warehouse: Warehouse, name: str) -> Path:
    """The folder of a release, without what a killed process left in it."""
    folder = warehouse.release(name)
    if name not in release_names(warehouse):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    return folder


def _write_of_round(
    warehouse: Warehouse,
    origin: Origin,
    folder: Path,
    exporters: Sequence[Exporter],
    leaking: frozenset[str],
    written: RowsWritten,
) -> list[ExportedFile]:
    """Write the RL rows, which are those of one round and so of one release, without the leaking ones."""
    if not exporters:
        return []
    stored = read_batches(warehouse, "rl_steps", rounds=[origin.round], run_id=origin.run_id)
    rows = (without_rows(batch, "rl_step_id", leaking) for batch in stored)
    files = export_release(folder, exporters, {"rl_steps": rows}, WarehouseScreens(warehouse), written)
    _refuse_problems(warehouse, origin, folder, exporters)
    return files


def _write_supervised(
    warehouse: Warehouse,
    folder: Path,
    origin: Origin,
    wanted: SharedRelease,
    exporters: Sequence[Exporter],
    written: RowsWritten,
) -> SharedRows:
    """Write the supervised rows that no earlier release has, and which of all rows the release takes."""
    if not exporters:
        return NO_SHARED_ROWS
    shared = share_rows(warehouse, wanted, exporters, written)
    if shared.new is not None:
        _refuse_problems(warehouse, origin, shared.new, exporters)
    write_selection(folder, shared.selected)
    return shared


def _write_kinds(
    warehouse: Warehouse,
    folder: Path,
    origin: Origin,
    kinds: Sequence[KindRows],
    written: RowsWritten,
) -> list[ReleasedKind]:
    """Write the derived kinds, and check the rows that no earlier release has."""
    released = list(write_kinds(warehouse, folder, origin, kinds, written))
    for kind in released:
        if kind.shared.new is not None:
            _refuse_problems(warehouse, origin, kind.shared.new, [kind.exporter])
    return released


def _left_out_rows(
    exporters: Sequence[Exporter], shared: SharedRows, released: Sequence[ReleasedKind]
) -> dict[str, LeftOutRows]:
    """By configuration, the rows of its shards that the release does not take."""
    supervised = (each.name for each in exporters if each.name not in {kind.exporter.name for kind in released})
    found = {name: LeftOutRows(shared.left_out, shared.left_out_rows) for name in supervised}
    return found | {
        kind.exporter.name: LeftOutRows(kind.shared.left_out, kind.shared.left_out_rows) for kind in released
    }


def _refuse_problems(warehouse: Warehouse, origin: Origin, folder: Path, exporters: Sequence[Exporter]) -> None:
    """Check a sample of the written rows; a release of 15,000 rows takes a quarter of a second."""
    guidance = _hints(warehouse, origin, folder, exporters)
    problems = check_release(folder, exporters, guidance, _IMAGES_EVERY, _GROUPS_EVERY).problems
    if problems:
        first = problems[0]
        raise TrajmillError(
            f"{folder}: {len(problems)} problems in what was exported, the first: row {first.row_id} of {first.file}: "
            f"{first.what}; nothing was released"
        )


def _hints(warehouse: Warehouse, origin: Origin, folder: Path, exporters: Sequence[Exporter]) -> Mapping[str, str]:
    """By trajectory id, the hints that the run gave the trajectories of exported rows."""
    columns = [pq.read_table(folder / each.file, columns=["trajectory_id"]).column(0) for each in exporters]
    ids = {trajectory_id for column in columns for trajectory_id in column.unique().to_pylist()}
    return hints_of(warehouse, origin.run_id, ids)


def _card_contents(
    request: ReleaseRequest, curated: TrainingSet, leaking: Mapping[str, int], versions: Mapping[str, int]
) -> CardContents:
    examples = curated.examples
    return CardContents(
        name=request.name,
        licence="apache-2.0",
        run_id=request.origin.run_id,
        round=request.origin.round,
        code_version=request.origin.code_version,
        policy=request.policy,
        judge=request.judge,
        tables=versions,
        queries=len(examples["query_id"].unique()),
        trajectories=len(examples["trajectory_id"].unique()),
        dropped=(
            *(DroppedRows(reason, rows) for reason, rows in sorted(request.left_out.items()) if rows),
            DroppedRows("longer_success", curated.longer_success),
            DroppedRows("duplicate", curated.duplicate),
            *([DroppedRows("equal_reply", curated.equal_reply)] if request.keep_per_reply else []),
            *([DroppedRows("near_screen", curated.near_screen)] if request.curate.near_screens else []),
            *(DroppedRows(reason, rows) for reason, rows in sorted(leaking.items())),
        ),
    )


def _rows_of(files: Sequence[ExportedFile], path: str) -> int:
    return next((file.rows for file in files if file.path == path), 0)
