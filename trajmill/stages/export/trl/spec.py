"""The spec of the supervised file for TRL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trajmill.stages.export.spec import ExporterSpec

if TYPE_CHECKING:
    from trajmill.stages.export.base import Exporter


class TrlSpec(ExporterSpec):
    """Supervised rows as TRL reads them."""

    kind: Literal["trl"] = "trl"
    """Supervised rows for TRL."""

    def open(self) -> Exporter:
        """What writes `trl/sft.parquet`."""
        from trajmill.stages.export.trl.exporter import TrlExporter

        return TrlExporter()
