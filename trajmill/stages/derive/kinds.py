"""The kinds of derived data: the built-in ones and those that installed packages add."""

from __future__ import annotations

from trajmill.stages.parts import PartGroup

_HERE = __package__

DERIVE_KINDS = PartGroup(
    "trajmill.derive_kinds",
    "derived data",
    {
        "step": f"{_HERE}.step_data:StepDataSpec",
        "grounding": f"{_HERE}.grounding.spec:GroundingSpec",
        "action_semantics": f"{_HERE}.semantics.spec:ActionSemanticsSpec",
        "reasoning": f"{_HERE}.reasoning.spec:ReasoningSpec",
        "planning": f"{_HERE}.planning.spec:PlanningSpec",
        "roles": f"{_HERE}.roles.spec:RolesSpec",
        "ces": f"{_HERE}.roles.spec:CesDataSpec",
        "coda": f"{_HERE}.roles.spec:CodaDataSpec",
        "rft": f"{_HERE}.roles.spec:RftDataSpec",
    },
)
