"""Makes a release of the training rows of all rounds so far."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.deriving.release_kinds import (
    KindRows,
    ReleasedKind,
    authors_of,
    derived_rows,
    write_kinds,
)
from trajmill.pipelines.reading.episodes import guidance_texts
from trajmill.pipelines.release_shards import NO_SHARED_ROWS, SharedRelease, SharedRows, share_rows
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.stages.curate.leak_check import LeakCheck, without_rows
from trajmill.stages.curate.near_duplicates import alike_queries, without_alike_screens
from trajmill.stages.curate.reflector import with_equal_reflections
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.curate.training_set import Alike, TrainingSet, chosen_trajectories, training_set
from trajmill.stages.derive.end_to_end import KIND as END_TO_END
from trajmill.stages.derive.rl_steps import compares_members
from trajmill.stages.export.base import ExportedFile, Exporter
from trajmill.stages.export.card import CardContents, DroppedRows, LeftOutRows, dataset_card
from trajmill.stages.export.check import check_release
from trajmill.stages.export.selection import write_selection
from trajmill.stages.export.spec import ExporterSpec
from trajmill.stages.export.verl.exporter import RL_FILE
from trajmill.stages.export.write import RowsWritten, export_release
from trajmill.warehouse.delta_log import table_versions
from trajmill.warehouse.layout import ONLY_SHARD, Warehouse
from trajmill.warehouse.read import read_batches, read_table
from trajmill.warehouse.releases import read_release, release_names, write_release
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.staged.tally import ShardTally, plan

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
    formats: tuple[ExporterSpec, ...]
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


def make_release(warehouse: Warehouse, request: ReleaseRequest, queries: Sequence[Query], staging: Path) -> Released:
    """Curate, check for leaks, export, and write the manifest of a release; `staging` is where progress is counted.

    Raises:
        TrajmillError: held-out data is in the training rows, or a written file has mistakes; nothing is released.
    """
    origin = request.origin
    versions = _versions(warehouse, request.name)
    alike = _alike(queries, request.curate, WarehouseScreens(warehouse))
    offered = _offered(warehouse, origin, request.keep_per_query, alike)
    check = LeakCheck(queries, request.heldout_apps, request.curate)
    chosen = training_set(offered.rows, request.averages, request.keep_per_query, request.keep_per_reply, alike)
    clean = check.examples(chosen.examples)
    curated = chosen._replace(examples=clean.rows, longer_success=offered.total - offered.rows.num_rows)
    rl_steps = check.rl_steps(read_table(warehouse, "rl_steps", _RL_TEXTS, rounds=[origin.round], run_id=origin.run_id))
    kinds = [_curated_kind(kind, check) for kind in derived_rows(warehouse, origin, request.kinds)]
    folder = _emptied(warehouse, request.name)
    is_rl = compares_members(rl_steps.rows)
    exporters = [each for each in (spec.open() for spec in request.formats) if is_rl or each.table != "rl_steps"]
    guidance = _guidance(warehouse, origin)
    tally = ShardTally(staging, ONLY_SHARD)
    supervised = [each for each in exporters if each.table == "examples"]
    own = len(exporters) - len(supervised)
    rows = curated.examples.num_rows * len(supervised) + rl_steps.rows.num_rows * own
    plan(staging, rows + sum(kind.rows.num_rows for kind in kinds))
    of_round = _write_of_round(
        warehouse,
        origin,
        folder,
        [each for each in exporters if each.table == "rl_steps"],
        guidance,
        rl_steps.leaking,
        tally.add,
    )
    shared = _write_supervised(
        warehouse,
        folder,
        SharedRelease(origin.run_id, origin.round, curated.examples, offered.rows),
        supervised,
        guidance,
        tally.add,
    )
    released = _write_kinds(warehouse, folder, origin, kinds, guidance, tally.add) if shared.files else []
    files = [*of_round, *shared.exported(warehouse, folder)]
    files += [file for kind in released for file in kind.shared.exported(warehouse, folder)]
    leaking = Counter(clean.left_out) + Counter({f"{why} (RL)": n for why, n in rl_steps.left_out.items()})
    for kind in kinds:
        leaking.update({f"{why} ({kind.kind})": rows for why, rows in kind.left_out.items()})
    contents = _card_contents(request, curated, leaking, versions)._replace(
        notes=() if is_rl else (NO_GROUPS,),
        left_out=_left_out_rows([*exporters, *(kind.exporter for kind in released)], shared, released),
        authors=authors_of(warehouse, origin, curated.examples, kinds),
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
    return Released(offered.total, curated.examples.num_rows, _rows_of(files, RL_FILE))


class _Offered(NamedTuple):
    """The supervised rows of all rounds so far."""

    total: int
    rows: pa.Table
    """Those of the trajectories that are learned from: at most some of each query, however many rounds there were."""


def _offered(warehouse: Warehouse, origin: Origin, per_query: int, alike: Alike) -> _Offered:
    """Choose trajectories by narrow columns, then read the texts of no others."""
    rounds, own = range(origin.round + 1), END_TO_END
    names = ["kind", "query_id", "trajectory_id", "step_index"]
    keys = read_table(warehouse, "examples", names, rounds=rounds, run_id=origin.run_id)
    keys = keys.filter(pc.equal(keys["kind"], own))
    chosen = pa.array(sorted(chosen_trajectories(keys, per_query, alike)), pa.string())
    batches = read_batches(warehouse, "examples", rounds=rounds, run_id=origin.run_id)
    wanted = (
        batch.filter(pc.and_(pc.equal(batch["kind"], own), pc.is_in(batch["trajectory_id"], chosen)))
        for batch in batches
    )
    kept = [batch for batch in wanted if batch.num_rows]
    rows = pa.Table.from_batches(kept) if kept else read_table(warehouse, "examples", rounds=[])
    return _Offered(keys.num_rows, rows)


def _alike(queries: Sequence[Query], spec: CurateSpec, screens: WarehouseScreens) -> Alike:
    """The queries and screens that count as one, where the configuration asks for it."""
    instructions = {query.query_id: query.instruction for query in queries}
    return Alike(
        alike_queries(instructions, spec.near_queries) if spec.near_queries else {},
        partial(without_alike_screens, screens=screens, bits=spec.near_screens) if spec.near_screens else None,
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
    guidance: Mapping[str, str],
    leaking: frozenset[str],
    written: RowsWritten,
) -> list[ExportedFile]:
    """Write the RL rows, which are those of one round and so of one release, without the leaking ones."""
    if not exporters:
        return []
    stored = read_batches(warehouse, "rl_steps", rounds=[origin.round], run_id=origin.run_id)
    rows = (without_rows(batch, "rl_step_id", leaking) for batch in stored)
    files = export_release(folder, exporters, {"rl_steps": rows}, WarehouseScreens(warehouse), written)
    _refuse_problems(folder, exporters, guidance)
    return files


def _write_supervised(
    warehouse: Warehouse,
    folder: Path,
    wanted: SharedRelease,
    exporters: Sequence[Exporter],
    guidance: Mapping[str, str],
    written: RowsWritten,
) -> SharedRows:
    """Write the supervised rows that no earlier release has, and which of all rows the release takes."""
    if not exporters:
        return NO_SHARED_ROWS
    shared = share_rows(warehouse, wanted, exporters, written)
    if shared.new is not None:
        _refuse_problems(shared.new, exporters, guidance)
    write_selection(folder, shared.selected)
    return shared


def _write_kinds(
    warehouse: Warehouse,
    folder: Path,
    origin: Origin,
    kinds: Sequence[KindRows],
    guidance: Mapping[str, str],
    written: RowsWritten,
) -> list[ReleasedKind]:
    """Write the derived kinds, and check the rows that no earlier release has."""
    released = list(write_kinds(warehouse, folder, origin, kinds, written))
    for kind in released:
        if kind.shared.new is not None:
            _refuse_problems(kind.shared.new, [kind.exporter], guidance)
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


def _curated_kind(kind: KindRows, check: LeakCheck) -> KindRows:
    clean = check.examples(kind.rows)
    balanced = with_equal_reflections(clean.rows)
    left_out = Counter(clean.left_out) + Counter(unequal_reflections=clean.rows.num_rows - balanced.num_rows)
    return kind._replace(rows=balanced, left_out=left_out)


def _refuse_problems(folder: Path, exporters: Sequence[Exporter], guidance: Mapping[str, str]) -> None:
    """Check a sample of the written rows; a release of 15,000 rows takes a quarter of a second."""
    problems = check_release(folder, exporters, guidance, _IMAGES_EVERY, _GROUPS_EVERY).problems
    if problems:
        first = problems[0]
        raise TrajmillError(
            f"{folder}: {len(problems)} problems in what was exported, the first: row {first.row_id} of {first.file}: "
            f"{first.what}; nothing was released"
        )


def _guidance(warehouse: Warehouse, origin: Origin) -> Mapping[str, str]:
    """By trajectory id, the hints that the run gave it."""
    texts = guidance_texts(warehouse, origin.run_id)
    rows = read_table(
        warehouse,
        "trajectories",
        ["trajectory_id", "guidance_id"],
        rounds=range(origin.round + 1),
        run_id=origin.run_id,
    )
    guided = rows.filter(pc.is_valid(rows["guidance_id"]))
    pairs = zip(guided["trajectory_id"].to_pylist(), guided["guidance_id"].to_pylist(), strict=True)
    return {trajectory_id: texts[guidance_id] for trajectory_id, guidance_id in pairs}


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
