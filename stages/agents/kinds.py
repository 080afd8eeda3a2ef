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
        "reference": "trajmill.stages.agents.spec:ReferenceSpec",
    },
)
