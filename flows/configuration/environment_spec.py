"""The environment of a configuration, as pipelines take it."""

from __future__ import annotations

from trajmill.flows.configuration.config import Config
from trajmill.pipelines.environments import (
    AndroidSpec,
    BrowserGymSpec,
    BrowserSpec,
    DesktopSpec,
    EnvironmentSpec,
    MiniWobSpec,
    SimulatedSpec,
    WebAppSpec,
)


def environment_of(config: Config) -> EnvironmentSpec:
    """Where the configuration has episodes happen."""
    match config.run.environment:
        case "simulated":
            return SimulatedSpec(config.queries.apps)
        case "miniwob":
            return MiniWobSpec()
        case "webapp":
            return WebAppSpec(config.queries.apps)
        case "browser":
            return BrowserSpec()
        case "browsergym":
            return BrowserGymSpec()
        case "android":
            from trajmill.stages.environments.android.settings import AndroidSettings

            settings = AndroidSettings.model_validate(config.android.model_dump(exclude={"tasks"}))
            return AndroidSpec(settings.model_dump_json())
        case "desktop":
            from trajmill.stages.environments.desktop.queries import packaged_tasks

            return DesktopSpec(config.desktop.servers, config.desktop.tasks or packaged_tasks())
