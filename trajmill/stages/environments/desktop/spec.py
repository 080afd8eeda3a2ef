"""The spec of desktops with the OSWorld server protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from trajmill.schemas.spec import OPERATIONAL, Fraction
from trajmill.stages.environments.spec import EnvironmentSpec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


class DesktopSpec(EnvironmentSpec):
    """Desktops with the OSWorld server protocol: your own machines, or desktops on this machine (extra `desktop`)."""

    kind: Literal["desktop"] = "desktop"
    """Desktops with the OSWorld server protocol."""
    servers: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Addresses of your machines, e.g. `http://10.0.0.7:5000`; if empty, desktops are started here."""
    tasks: Path | None = None
    """Folder of OSWorld task files; by default the tasks of the package."""
    packaged: bool = True
    """Whether a run without `tasks` gets the packaged tasks; `false` for a run on graphs only."""
    held_out: Fraction = 0.25
    """Share of the tasks that only measure the policy."""
    validation: Fraction = 0.15
    """Share of the tasks that decides promotion."""

    def identity(self) -> dict[str, Any]:
        """As of every spec; with the tasks of the package it is that of runs from before they could be left out."""
        decisive = super().identity()
        return {key: value for key, value in decisive.items() if key != "packaged" or not self.packaged}

    @property
    def task_folder(self) -> Path:
        from trajmill.stages.environments.desktop.task import packaged_tasks

        return self.tasks or packaged_tasks()

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.desktop.environment import LocalDesktops, RemoteDesktops

        if self.servers:
            return RemoteDesktops(self.servers, self.task_folder)
        return LocalDesktops(self.task_folder)

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.desktop.task import import_tasks
        from trajmill.stages.environments.tasks import ImportedQueries

        if self.tasks is None and not self.packaged:
            return ImportedQueries([], [])
        made = import_tasks(self.task_folder, self.held_out, origin, self.validation)
        return ImportedQueries(made, [], untried=self.tasks is not None)
