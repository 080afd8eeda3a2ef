"""The spec of the RL file for verl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trajmill.stages.export.spec import ExporterSpec

if TYPE_CHECKING:
    from trajmill.stages.export.base import Exporter


class VerlSpec(ExporterSpec):
    """Trajectory-level RL rows as verl reads them."""

    kind: Literal["verl"] = "verl"
    """RL rows for verl."""

    def open(self) -> Exporter:
        """What writes `verl/rl.parquet`."""
        from trajmill.stages.export.verl.exporter import VerlExporter

        return VerlExporter()
