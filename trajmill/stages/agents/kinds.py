"""The kinds of agents."""

from __future__ import annotations

from typing import Final

from trajmill.stages.parts import PartGroup

AGENTS: Final = PartGroup(
    "trajmill.agents",
    "agent",
    {
        "end_to_end": "trajmill.stages.agents.spec:EndToEndSpec",
        "explorer": "trajmill.stages.agents.spec:ExplorerSpec",
        "ces": "trajmill.stages.agents.ces.spec:CesSpec",
        "coda": "trajmill.stages.agents.coda.spec:CodaSpec",
        "light_manus": "trajmill.stages.agents.light_manus.spec:LightManusSpec",
        "mobile_agent_v3": "trajmill.stages.agents.mobile_agent_v3.spec:MobileAgentV3Spec",
        "reference": "trajmill.stages.agents.spec:ReferenceSpec",
    },
)
