"""The formats that a release's rows can be written in."""

from __future__ import annotations

from typing import Final

from trajmill.stages.export.spec import ExporterSpec
from trajmill.stages.parts import PartGroup

EXPORTERS: Final = PartGroup(
    "trajmill.exporters",
    "release format",
    {
        "trl": "trajmill.stages.export.trl.spec:TrlSpec",
        "verl": "trajmill.stages.export.verl.spec:VerlSpec",
    },
)


def exporter_spec(kind: str) -> ExporterSpec:
    """The spec of a format with its defaults.

    Raises:
        BadInputError: there is no such format, and the nearest one is named; or it is no exporter.
    """
    return EXPORTERS.default_spec(kind, ExporterSpec)
