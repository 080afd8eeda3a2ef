"""Makes a release of the training rows of all rounds so far: the supervised rows, derived kinds, and RL rows."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.pipelines.reading.episodes import hints_of
from trajmill.pipelines.reading.examples import ExampleSet, StoredExamples, read_candidates
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Query
from trajmill.stages.curate.diversity import (
    DIVERSITY_FILE,
    Diversity,
    Quotas,
    diversity_json,
    hold_to_quotas,
    narrowed,
    read_diversity,
    with_few_equal,
)
from trajmill.stages.curate.leaks import LeakCheck, leaks_of, without_leaks, without_rows
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.curate.training_set import (
    Alike,
    alike_queries,
    training_set,
    with_equal_sides,
    without_alike_screens,
    without_duplicates,
)
from trajmill.stages.derive.rl_steps import compares_members
from trajmill.stages.derive.step_data import KIND as END_TO_END
from trajmill.stages.export.card import CardContents, LeftOutRows, authored_rows, dataset_card
from trajmill.stages.export.exporter import RL_FILE, Exporter, SftExporter
from trajmill.stages.export.release import (
    SCREENS_FILE,
    ExportedFile,
    RowsWritten,
    SelectedRow,
    check_release,
    export_release,
    left_out_filters,
    write_selection,
)
from trajmill.warehouse.delta_log import table_versions
from trajmill.warehouse.layout import ONLY_SHARD, Warehouse
from trajmill.warehouse.read import read_batches, read_table
from trajmill.warehouse.releases import is_release, named_shards, read_release, release_names, write_release
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import CHECKED
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.staging import ShardProgress, plan_items
from trajmill.warehouse.store.connection import damage_as_error
from trajmill.warehouse.views import quoted

_RL_TEXTS = ("rl_step_id", "group", "trajectory_id", "step_index", "prompt", "response")
_AT_ONCE = 10_000  # DuckDB takes 5 s and 1.6 GiB for 100,000 ids.
_NO_GROUPS = (
    "There are no RL rows: no group of the round has two rollouts of one query with different rewards to compare "
    "(`rollout.group_size`, `rl.keep_without_spread`)."
)
"""The card's sentence for a release whose groups all have one attempt, or that has no groups."""
_IMAGES_EVERY = 50
_GROUPS_EVERY = 4
"""Every n-th row group and every n-th image is read again before a release gets its manifest."""


class ReleaseRequest(NamedTuple):
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
    quotas: Quotas = {}
    """By aspect, the largest share of the supervised rows that one value may have."""
    kinds: Mapping[str, int | None] = {}
    """The derived kinds that it takes, as `made_by` of their rows, with their `KindSpec.equal_words`; other settings
    have made the others."""


class Released(NamedTuple):
    offered: int
    examples: int
    rl_steps: int
    left_out: Mapping[str, int]
    """By reason, how many trajectories, steps and rows are not in it."""
    narrowed: Sequence[str]
    """Sentences about the aspects in which it is narrower than the release before."""


def make_release(warehouse: Warehouse, request: ReleaseRequest, queries: Sequence[Query], staging: Path) -> Released:
    """Curate, check for leaks, export, and write the manifest of a release; `staging` is where progress is counted.

    Raises TrajmillError if held-out data is in the training rows, or a written file has mistakes; nothing is released.
    """
    origin, name, is_made = request.origin, request.name, is_release(warehouse, request.name)
    # Other runs commit rows too, so that a release which is there keeps the versions in its manifest.
    versions = read_release(warehouse, name).tables if is_made else table_versions(warehouse)
    check = LeakCheck(queries, request.heldout_apps, request.curate)
    hidden = _steps_in_apps(warehouse, origin.run_id, request.heldout_apps)
    own, offered, diversity = _supervised(warehouse, request, queries, check, hidden)
    of_round = read_table(warehouse, "rl_steps", _RL_TEXTS, rounds=[origin.round], run_id=origin.run_id)
    rl_steps = check.rl_steps(of_round).without_steps("rl_step_id", hidden)
    compares = compares_members(rl_steps.rows)
    for_rl = [each for each in request.formats if compares and each.table == "rl_steps"]
    kinds = _kinds(warehouse, origin, request.kinds, check, hidden)
    folder = warehouse.release(name)
    if not is_made:
        # A killed process may have left something in it.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    progress = ShardProgress(staging, ONLY_SHARD)
    in_shards = sum(each.examples.digests.num_rows * len(each.exporters) for each in (own, *kinds))
    plan_items(staging, in_shards + rl_steps.rows.num_rows * len(for_rl))
    files = _write_rl(warehouse, origin, folder, for_rl, rl_steps.leaking, progress.add) if for_rl else []
    shared: list[tuple[ReleaseRows, SharedRows]] = []
    for part in (own, *kinds):
        # Kinds come with supervised rows only.
        if part.exporters if part is own else shared and shared[0][1].files:
            made = share_rows(warehouse, origin.run_id, origin.round, folder, part, progress.add)
            if made.new is not None:
                _refuse_problems(warehouse, origin, made.new, part.exporters)
            shared.append((part, made))
    files += [file for _, made in shared for file in made.exported(warehouse, folder)]
    examples = own.examples.digests
    before = request.previous and warehouse.store.get(f"releases/{request.previous}/{DIVERSITY_FILE}")
    left_out = Counter({why: rows for why, rows in request.left_out.items() if rows})
    for of, reasons in [("RL", rl_steps.left_out), *((each.kind, each.left_out) for each in (own, *kinds))]:
        left_out.update({f"{why} ({of})" if of else why: rows for why, rows in reasons.items()})
    contents = CardContents(
        name=name,
        licence="apache-2.0",
        run_id=origin.run_id,
        round=origin.round,
        code_version=origin.code_version,
        policy=request.policy,
        judge=request.judge,
        tables=versions,
        queries=len(examples["query_id"].unique()),
        trajectories=len(examples["trajectory_id"].unique()),
        dropped=left_out,
        left_out={each.name: made.left_out for part, made in shared for each in part.exporters},
        authors=authored_rows(examples, {part.kind: part.examples.digests for part in kinds}),
        notes=() if compares else (_NO_GROUPS,),
        diversity=diversity if own.exporters else (),
        narrowed=tuple(narrowed(read_diversity(before), diversity)),
    )
    exporters = [each for each in request.formats if compares or each.table != "rl_steps"]
    card = dataset_card(contents, [*exporters, *(each for part, _ in shared[1:] for each in part.exporters)], files)
    (folder / "README.md").write_text(card, encoding="utf-8")
    (folder / DIVERSITY_FILE).write_bytes(diversity_json(diversity))
    shards = {file for _, made in shared for file in made.files}
    write_release(warehouse, name, origin, versions, request.created_at, request.previous, shards)
    rl_rows = next((file.rows for file in files if file.path == RL_FILE), 0)
    return Released(offered, examples.num_rows, rl_rows, +left_out, contents.narrowed)


def _supervised(
    warehouse: Warehouse, request: ReleaseRequest, queries: Sequence[Query], check: LeakCheck, hidden: pa.Array
) -> tuple[ReleaseRows, int, Sequence[Diversity]]:
    """Return the supervised rows, how many rows were on offer, and the diversity; raises TrajmillError for a leak."""
    run_id, near = request.origin.run_id, request.curate
    wanted = ExampleSet({"kind": [END_TO_END]}, request.keep_per_query)
    candidates = read_candidates(warehouse, request.origin, wanted, check)
    instructions = {query.query_id: query.instruction for query in queries}
    same_queries = alike_queries(instructions, near.near_queries) if near.near_queries else {}
    by_screen = partial(without_alike_screens, screens=WarehouseScreens(warehouse), bits=near.near_screens)
    alike = Alike(same_queries, by_screen if near.near_screens else None)
    chosen = training_set(candidates.rows, request.averages, request.keep_per_query, request.keep_per_reply, alike)
    clean = without_leaks(chosen.examples, "example_id", leaks_of(chosen.examples)).without_steps("example_id", hidden)
    facets = _facets(warehouse, run_id, clean.rows["example_id"].to_pylist())
    varied = hold_to_quotas(clean.rows, facets, request.quotas)
    left_out = {
        "longer_success": candidates.offered - candidates.rows.num_rows + chosen.longer_success,
        "duplicate": chosen.duplicate,
        **({"equal_reply": chosen.equal_reply} if request.keep_per_reply else {}),
        **({"near_screen": chosen.near_screen} if near.near_screens else {}),
        **({"over_quota": varied.over_quota} if request.quotas else {}),
        **clean.left_out,
    }
    stored = StoredExamples(warehouse, run_id, wanted.where, varied.examples)
    exporters = [each for each in request.formats if each.table == "examples"]
    return ReleaseRows(stored, exporters, left_out=left_out), candidates.offered, varied.diversity


def _write_rl(
    warehouse: Warehouse,
    origin: Origin,
    folder: Path,
    for_rl: Sequence[Exporter],
    leaking: frozenset[str],
    add: RowsWritten,
) -> list[ExportedFile]:
    """Write the RL rows, which are those of one round and so of one release."""
    batches = read_batches(warehouse, "rl_steps", rounds=[origin.round], run_id=origin.run_id)
    rows = (without_rows(batch, "rl_step_id", leaking) for batch in batches)
    files = export_release(folder, for_rl, {"rl_steps": rows}, WarehouseScreens(warehouse), add)
    _refuse_problems(warehouse, origin, folder, for_rl)
    return files


def _facets(warehouse: Warehouse, run_id: str, ids: Sequence[str]) -> pa.Table:
    """Read `example_facets` of some rows of a run; ids of a subquery would only be compared after all joins."""
    texts = (", ".join(map(quoted, ids[at : at + _AT_ONCE])) or "''" for at in range(0, len(ids) or 1, _AT_ONCE))
    asked = f"SELECT * FROM example_facets WHERE run_id = {quoted(run_id)} AND example_id IN"
    return pa.concat_tables(run_sql(warehouse, f"{asked} ({text})") for text in texts)


def _steps_in_apps(warehouse: Warehouse, run_id: str, apps: Collection[str]) -> pa.Array:
    """Return `trajectory_id/index` of the steps of a run in some apps, where a policy may have gone astray."""
    names = ", ".join(map(quoted, apps)) or "''"
    asked = f"SELECT trajectory_id || '/' || index AS step FROM steps WHERE run_id = {quoted(run_id)}"
    answer = run_sql(warehouse, f"{asked} AND (app_before IN ({names}) OR app_after IN ({names}))")
    return answer["step"].combine_chunks()


def _kinds(
    warehouse: Warehouse, origin: Origin, versions: Mapping[str, int | None], check: LeakCheck, hidden: pa.Array
) -> list[ReleaseRows]:
    by = ["query_id", "trajectory_id", "step_index", "example_id"]
    found = []
    for version, most in sorted(versions.items()):
        wanted = ExampleSet({"made_by": [version]}, None)
        candidates = read_candidates(warehouse, origin, wanted, check).rows
        for kind in candidates["kind"].unique().to_pylist():
            rows = candidates.filter(pc.equal(candidates["kind"], kind))
            distinct = without_duplicates(rows.sort_by([(column, "ascending") for column in by]))
            clean = without_leaks(distinct, "example_id", leaks_of(distinct)).without_steps("example_id", hidden)
            varied = clean.rows if most is None else with_few_equal(clean.rows, "words", most)
            balanced = with_equal_sides(varied)
            left_out = Counter(clean.left_out) + Counter(
                duplicate=rows.num_rows - distinct.num_rows,
                equal_words=clean.rows.num_rows - varied.num_rows,
                unequal_sides=varied.num_rows - balanced.num_rows,
            )
            stored = StoredExamples(warehouse, origin.run_id, wanted.where, balanced)
            found.append(ReleaseRows(stored, [SftExporter(derived_kind=kind)], kind, left_out))
    return sorted(found, key=lambda each: each.kind)


def _refuse_problems(warehouse: Warehouse, origin: Origin, folder: Path, exporters: Sequence[Exporter]) -> None:
    """Check a sample of the written rows; a release of 15,000 rows takes a quarter of a second."""
    columns = [pq.read_table(folder / each.file, columns=["trajectory_id"], **CHECKED).column(0) for each in exporters]
    ids = {trajectory_id for column in columns for trajectory_id in column.unique().to_pylist()}
    guidance = hints_of(warehouse, origin.run_id, ids)
    problems = check_release(folder, exporters, guidance, _IMAGES_EVERY, _GROUPS_EVERY).problems
    if problems:
        first = problems[0]
        raise TrajmillError(
            f"{folder}: {len(problems)} problems in what was exported, the first: row {first.row_id} of {first.file}: "
            f"{first.what}; nothing was released"
        )


_KEYS = pa.schema([("example_id", pa.string()), ("trajectory_id", pa.string())])


class ReleaseRows(NamedTuple):
    """Rows of table `examples` that a release takes: the supervised ones, or those of a derived kind."""

    examples: StoredExamples
    exporters: Sequence[Exporter]
    kind: str = ""
    """Empty for the supervised rows."""
    left_out: Mapping[str, int] = {}
    """By reason, rows that leak, repeat others, or are too many of one query, value or side (such as a judge's)."""


class SharedRows(NamedTuple):
    new: Path | None
    """Folder of the shard with the rows that no other release has; None if there are none."""
    files: Sequence[Path]
    left_out: LeftOutRows

    def exported(self, warehouse: Warehouse, release: Path) -> list[ExportedFile]:
        """Return the files with their rows and sizes, and with paths relative to the folder of the release."""
        named = named_shards(warehouse)
        found = []
        for path in self.files:
            if path in named:
                _fetch(warehouse, path)
            rows, size = pq.read_metadata(path).num_rows, path.stat().st_size
            digest = named[path].sha256 if path in named else ""
            found.append(ExportedFile(os.path.relpath(path, release), rows, digest, size))
        return found


def share_rows(
    warehouse: Warehouse,
    run_id: str,
    round_number: int,
    release: Path,
    wanted: ReleaseRows,
    written: RowsWritten = lambda rows: None,
) -> SharedRows:
    """Write the rows that no shard of the run has, and the places of all rows into the folder of the release.

    `written` is called for the rows that are there already, too. Raises BadInputError if a file of a shard that a
    release names is missing or damaged: its rows are not written again beside it, since the releases that name it
    would stay broken.
    """
    digests, exporters, folder = wanted.examples.digests, wanted.exporters, release / wanted.kind
    ids = digests["example_id"].combine_chunks()
    place, named = warehouse.shards(run_id), named_shards(warehouse)
    # By folder, the ids of a shard's rows and their trajectories; shards that lack a format are not shared.
    shards: dict[Path, pa.Table] = {}
    for name in sorted({path.relative_to(place).parts[0] for path in named if path.is_relative_to(place)}):
        paths = [place / name / each.file for each in exporters]
        if all(path in named for path in paths):
            for path in paths:
                _fetch(warehouse, path)
            with damage_as_error(warehouse.store.uri(warehouse.name(paths[0]))):
                shards[place / name] = pq.read_table(paths[0], columns=_KEYS.names, **CHECKED).cast(_KEYS)
    missing = ids.filter(pc.invert(pc.is_in(ids, _ids(shards))))
    written((len(ids) - len(missing)) * len(exporters))
    new = None
    if len(missing):
        new = place / f"r{round_number:04d}-{content_id(missing.to_pylist())[:12]}"
        rows = replace(wanted.examples, digests=digests.take(pc.index_in(missing, ids)))
        export_release(new, exporters, {"examples": rows}, WarehouseScreens(warehouse), written, rows.screens())
        shards[new] = rows.digests.select(_KEYS.names).cast(_KEYS)
    places = pc.index_in(ids, _ids(shards)).to_numpy()
    folders, starts = list(shards), [0, *accumulate(keys.num_rows for keys in shards.values())]
    numbers = np.searchsorted(starts, places, side="right") - 1
    relative = [os.path.relpath(shard, folder) for shard in folders]
    chosen = zip(ids.to_pylist(), digests["loss_weight"].to_pylist(), numbers, places, strict=True)
    selected = (
        SelectedRow(example_id, weight, relative[number], int(row) - starts[number])
        for example_id, weight, number, row in chosen
    )
    write_selection(folder, selected)
    used = [folders[number] for number in sorted(set(numbers.tolist()))]
    files = [shard / name for shard in used for name in (*(each.file for each in exporters), SCREENS_FILE)]
    left_out = left_out_filters([shards[shard] for shard in used], ids)
    left_out_rows = sum(shards[shard].num_rows for shard in used) - len(ids)
    return SharedRows(new, files, LeftOutRows(left_out, left_out_rows))


def _fetch(warehouse: Warehouse, path: Path) -> None:
    name = warehouse.name(path)
    try:
        warehouse.store.fetch(name)
    except FileNotFoundError:
        releases = (read_release(warehouse, each) for each in release_names(warehouse))
        users = ", ".join(each.name for each in releases if any(file.path == name for file in each.shards))
        raise BadInputError(
            f"{warehouse.store.uri(name)}: missing, with rows of {users}; restore it from a copy, or drop these "
            "releases (`trajmill releases drop`)"
        ) from None


def _ids(shards: Mapping[Path, pa.Table]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for keys in shards.values() for chunk in keys["example_id"].chunks], pa.string())
