"""The kinds of derived data, by name."""

from __future__ import annotations

from typing import Final

from trajmill.stages.derive.grounding.spec import GroundingSpec
from trajmill.stages.derive.kind_spec import KindSpec
from trajmill.stages.derive.planning.spec import PlanningSpec
from trajmill.stages.derive.reasoning.spec import ReasoningSpec
from trajmill.stages.derive.roles.spec import CesDataSpec, CodaDataSpec, RftDataSpec, RolesSpec
from trajmill.stages.derive.semantics.spec import ActionSemanticsSpec
from trajmill.stages.derive.step_data import StepDataSpec

_SPECS: Final[tuple[type[KindSpec], ...]] = (
    StepDataSpec,
    GroundingSpec,
    ActionSemanticsSpec,
    ReasoningSpec,
    PlanningSpec,
    RolesSpec,
    CesDataSpec,
    CodaDataSpec,
    RftDataSpec,
)
DERIVED_KINDS: Final[dict[str, type[KindSpec]]] = {spec.name: spec for spec in _SPECS}
"""The specs of all kinds that `trajmill derive KIND` makes."""
