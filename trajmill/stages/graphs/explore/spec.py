"""The section `[explore]`: which running apps `trajmill graph explore` walks, and how far."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt, ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.explore.base import ExploreBounds, unexplored
from trajmill.stages.parts import first_mistake

AppName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=40)]
_FOLDER = Path("graphs")
_PLATFORMS = {"android": Platform.PHONE, "desktop": Platform.DESKTOP}


class ExploreAppSpec(Spec):
    """A running app to explore."""

    title: str = ""
    """Its name in instructions, e.g. `the to-do list`."""
    description: str = ""
    """What it is for."""
    platform: Platform | None = None
    """`phone`, `desktop` or `web`. Default: that of `environment.kind`."""
    start_state: dict[str, Any] = {}
    """Its start state, as in a task of the environment (see environments.md)."""
    opening: tuple[dict[str, str], ...] = ()
    """Operations that bring it to the front after a reset, if the start state does not, e.g.
    `{operation = "tap", target = "icon:Notes"}`, as in a path (see environments.md)."""


class ExploreSpec(ExploreBounds):
    """Apps that `trajmill graph explore` explores, and how far."""

    folder: Path | None = None
    """Folder of the graphs (`NAME.yaml`, with the pictures beside it). Default: `graphs` in the working
    folder."""
    instances: PositiveInt = 2
    """Environments that explore at the same time."""
    apps: dict[AppName, ExploreAppSpec] = {}
    """The apps by name."""

    def file(self, name: str) -> Path:
        return (self.folder or _FOLDER) / f"{name}.yaml"

    def app(self, name: str, environment: str) -> AppGraph:
        """The app with a name, for a kind of environment. Raises BadInputError if there is no such app."""
        if name not in self.apps:
            text = f"explore.apps: there is no app {name!r}; {instead_of(name, self.apps)}"
            raise BadInputError(f"{text}; add a table [explore.apps.NAME]")
        spec = self.apps[name]
        return unexplored(
            name,
            spec.platform or _PLATFORMS.get(environment, Platform.WEB),
            title=spec.title,
            description=spec.description,
            start_state=spec.start_state,
            opening=tuple(_step(name, each) for each in spec.opening),
        )


def _step(app: str, operation: dict[str, str]) -> PathStep:
    try:
        return PathStep.model_validate({"page": "", **operation})
    except ValidationError as error:
        raise BadInputError(f"explore.apps.{app}.opening: {first_mistake(error, 'the operation')}") from error
