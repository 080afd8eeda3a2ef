"""The environment of a configuration."""

from __future__ import annotations

from trajmill.flows.configuration.config import Config
from trajmill.stages.environments.kinds import ENVIRONMENTS
from trajmill.stages.environments.spec import EnvironmentSpec


def environment_of(config: Config) -> EnvironmentSpec:
    """Where the configuration has episodes happen."""
    kind = config.run.environment
    section = {"apps": config.queries.apps} if kind in ("simulated", "webapp") else getattr(config, kind).model_dump()
    spec = ENVIRONMENTS.spec_class(kind).model_validate({"kind": kind, **section})
    assert isinstance(spec, EnvironmentSpec)
    return spec
