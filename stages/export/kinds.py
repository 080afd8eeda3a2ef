"""The formats that a release's rows can be written in."""

from __future__ import annotations

from collections.abc import Sequence
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


def exporter_specs(formats: Sequence[str]) -> tuple[ExporterSpec, ...]:
    """The specs of some formats, each as it is by default.

    Raises:
        BadInputError: there is no such format; the nearest one is named.
    """
    made = tuple(EXPORTERS.spec_class(kind)() for kind in formats)
    return tuple(spec for spec in made if isinstance(spec, ExporterSpec))
