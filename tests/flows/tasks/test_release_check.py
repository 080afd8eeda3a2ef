"""A release is read again before it is sealed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.small_run import small_config
from tests.warehouse.samples import commit_rows, judgement, stage_run
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.release import RELEASE, release, release_name
from trajmill.schemas.errors import TrajmillError
from trajmill.stages.export.exporter import SFT_FILE, Exporter
from trajmill.stages.export.images import ReleaseScreenReader
from trajmill.stages.export.release import ExportedFile, RowsWritten, export_release
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.releases import release_names, verify_release

pytestmark = pytest.mark.slow


def export_spoiled(
    directory: Path,
    exporters: Sequence[Exporter],
    tables: Mapping[str, Iterable[pa.RecordBatch]],
    screens: ReleaseScreenReader,
    written: RowsWritten,
    shown: Iterable[str],
) -> list[ExportedFile]:
    files = export_release(directory, exporters, tables, screens, written, shown)
    table = pq.read_table(directory / SFT_FILE)
    wrong = pa.array(["heldout_apps"] * table.num_rows, table.schema.field("split").type)
    pq.write_table(
        table.set_column(table.schema.get_field_index("split"), table.schema.field("split"), wrong),
        directory / SFT_FILE,
    )
    return files


def test_a_release_that_fails_its_check_is_not_released(
    small_run: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(small_run.root, tmp_path / "copy")
    context = RoundContext(small_config(tmp_path / "copy"), open_warehouse(tmp_path / "copy"), 2)
    shutil.rmtree(context.at(RELEASE).staging(context.warehouse))
    shutil.rmtree(context.warehouse.release(release_name(context)))

    with monkeypatch.context() as spoiling:
        spoiling.setattr("trajmill.pipelines.release_shards.export_release", export_spoiled)
        with pytest.raises(TrajmillError, match=r"\A[^\n]+ it is of split heldout_apps; nothing was released\Z"):
            release(context)
    assert release_name(context) not in release_names(context.warehouse)

    release(context)
    found, wanted = (verify_release(at, release_name(context)).files for at in (context.warehouse, small_run))
    assert [file for file in found if file.path != "README.md"] == [file for file in wanted if file.path != "README.md"]

    shutil.rmtree(context.at(RELEASE).staging(context.warehouse))
    at = stage_run("judge", 1, "another-run")
    commit_rows(context.warehouse, at, judgement("a", at, correct=True))
    release(context)
    assert verify_release(context.warehouse, release_name(context)).files == found, "sealed, then killed before the end"
    card = (context.warehouse.release(release_name(context)) / "README.md").read_text(encoding="utf-8")
    assert "| trajectory_not_accepted | " in card and "| harmful | " in card
