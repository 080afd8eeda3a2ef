"""The kinds of derived data, by name."""

from __future__ import annotations

from typing import Final

from trajmill.stages.derive.grounding.spec import GroundingSpec
from trajmill.stages.derive.kind_spec import KindSpec
from trajmill.stages.derive.step_data import StepDataSpec

DERIVED_KINDS: Final[dict[str, type[KindSpec]]] = {spec.name: spec for spec in (StepDataSpec, GroundingSpec)}
"""The specs of all kinds that `trajmill derive KIND` makes."""
