"""The kinds of training recipes."""

from __future__ import annotations

from typing import Final

from trajmill.stages.parts import PartGroup

RECIPES: Final = PartGroup(
    "trajmill.recipes",
    "training recipe",
    {
        "embedded-sft": "trajmill.stages.training.embedded.spec:EmbeddedSftSpec",
        "embedded-rl": "trajmill.stages.training.embedded.spec:EmbeddedRlSpec",
        "trl-sft": "trajmill.stages.training.trl_sft.spec:TrlSftSpec",
        "rft": "trajmill.stages.training.trl_sft.role_specs:RftSpec",
        "coda-generalist": "trajmill.stages.training.trl_sft.role_specs:CodaGeneralistSpec",
        "online-rejection": "trajmill.stages.training.trl_sft.role_specs:OnlineRejectionSpec",
        "role-rejection": "trajmill.stages.training.trl_sft.role_specs:RoleRejectionSpec",
        "trpo": "trajmill.stages.training.trpo.spec:TrpoSpec",
        "ces-stage1": "trajmill.stages.training.execution_feedback.spec:CesStage1Spec",
        "ces-stage2": "trajmill.stages.training.execution_feedback.spec:CesStage2Spec",
        "coda-specialist": "trajmill.stages.training.execution_feedback.spec:CodaSpecialistSpec",
        "command": "trajmill.stages.training.command.spec:CommandSpec",
    },
)
