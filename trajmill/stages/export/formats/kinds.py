"""The formats that trainers read, by the names that `trajmill export --format` takes."""

from __future__ import annotations

from typing import Final

from trajmill.stages.export.formats.spec import FormatSpec
from trajmill.stages.parts import PartGroup

_SPECS = "trajmill.stages.export.formats.spec:"

FORMATS: Final = PartGroup(
    "trajmill.formats",
    "export format",
    {
        "trl": f"{_SPECS}TrlFormatSpec",
        "grpo": f"{_SPECS}GrpoFormatSpec",
        "verl": f"{_SPECS}VerlFormatSpec",
        "verl-sft": f"{_SPECS}VerlSftFormatSpec",
        "llamafactory": f"{_SPECS}LlamaFactoryFormatSpec",
        "swift": f"{_SPECS}SwiftFormatSpec",
    },
)


def format_spec(kind: str) -> FormatSpec:
    """The spec of a format with its defaults.

    Raises:
        BadInputError: there is no such format; the nearest one is named.
    """
    return FORMATS.default_spec(kind, FormatSpec)
