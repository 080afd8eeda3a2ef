"""The kinds of models for endpoints."""

from __future__ import annotations

from typing import Final

from trajmill.stages.parts import PartGroup

MODELS: Final = PartGroup(
    "trajmill.models",
    "model",
    {
        "openai_api": "trajmill.stages.models.openai_api.spec:OpenAiSpec",
        "embedded": "trajmill.stages.models.embedded.spec:EmbeddedSpec",
        "transformers_local": "trajmill.stages.models.transformers_local.spec:TransformersSpec",
        "vllm_offline": "trajmill.stages.models.vllm_offline.spec:VllmSpec",
    },
)
