"""The files of derived kinds in a release: as the supervised file, with the provenance of each row."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from trajmill.stages.export.trl.exporter import TrlExporter

_PROVENANCE: Final = (
    pa.field("variant", pa.string()),
    pa.field("written_by", pa.string()),
    pa.field("source_screens", pa.list_(pa.string())),
    pa.field("box", pa.list_(pa.int32())),
)


def kind_file(kind: str) -> str:
    """Path of the file of a kind within a shard."""
    return f"trl/{kind}.parquet"


def kind_exporter(kind: str) -> TrlExporter:
    """What writes the rows of a derived kind."""
    return TrlExporter(
        name=kind,
        file=kind_file(kind),
        row_is=f"one example of the derived kind `{kind}`, as prompt and completion",
        advice=f"`{kind}` has the columns of `sft`; `variant` is the sort of the row, `written_by` who wrote it.",
        further=_PROVENANCE,
    )
