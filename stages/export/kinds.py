"""The formats that a release's rows can be written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trajmill.schemas.errors import BadInputError
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


def exporter_specs(formats: Sequence[str]) -> tuple[ExporterSpec, ...]:
    """The specs of some formats, each as it is by default.

    Raises:
        BadInputError: there is no such format, and the nearest one is named; or it is no exporter.
    """
    return tuple(map(_exporter_spec, formats))


def _exporter_spec(kind: str) -> ExporterSpec:
    spec = EXPORTERS.spec_class(kind)()
    if not isinstance(spec, ExporterSpec):
        raise BadInputError(f"{EXPORTERS.name}: {kind} is no trajmill.stages.export.spec.ExporterSpec")
    return spec
