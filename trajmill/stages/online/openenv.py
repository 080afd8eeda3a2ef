"""What is used of OpenEnv, imported without Gradio: to import its page, which nothing uses, takes 2 seconds."""

from __future__ import annotations

from trajmill.schemas.lean_imports import without_libraries

with without_libraries({"gradio"}):
    from openenv.core.env_server import Action, ConcurrencyConfig, Environment, Observation, State, create_fastapi_app
    from openenv.core.env_server.types import EnvironmentMetadata

__all__ = [
    "Action",
    "ConcurrencyConfig",
    "Environment",
    "EnvironmentMetadata",
    "Observation",
    "State",
    "create_fastapi_app",
]
