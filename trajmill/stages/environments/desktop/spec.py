"""The spec of desktops, with OSWorld's own code and a way to restore a machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import PositiveFloat, model_validator

from trajmill.schemas.spec import LATER, OPERATIONAL, Fraction, Spec
from trajmill.stages.environments.spec import EnvironmentSpec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


class OsworldSpec(Spec):
    """OSWorld's own code for setup and evaluation, in a separate environment (`make osworld-env`)."""

    python: Annotated[Path, OPERATIONAL] = Path(".venv-osworld/bin/python")
    """Python interpreter with `desktop-env`."""
    mirror: Annotated[Path | None, OPERATIONAL] = None
    """Folder with copies of what tasks download, at HOST/PATH of the address; by default it is downloaded."""
    proxy_file: Annotated[Path | None, OPERATIONAL] = None
    """JSON file of desktop-env's proxy pool, for tasks with `"proxy": true`."""
    password: Annotated[str, OPERATIONAL] = "password"
    """Password of the machine's user, for `{CLIENT_PASSWORD}` in tasks."""
    chromium_port: Annotated[int, OPERATIONAL] = 9222
    """Port of the machine's Chromium for remote debugging."""
    vlc_port: Annotated[int, OPERATIONAL] = 8080
    """Port of the machine's VLC."""
    seconds: Annotated[PositiveFloat, OPERATIONAL] = 900.0
    """Longest time of a setup or an evaluation."""


class RestoreSpec(Spec):
    """How a machine is restored between two tasks: by a command, a request or a snapshot."""

    command: tuple[str, ...] = ()
    """A program on this computer and its arguments, without a shell; `{host}` and `{port}` are those of the machine."""
    url: str = ""
    """Address to POST to, e.g. of a hypervisor, with the same placeholders."""
    provider: Literal["vmware", "virtualbox", "aws", "azure", "aliyun", "volcengine"] | None = None
    """Provider of desktop-env that reverts the virtual machine to a snapshot, with the Python of `osworld`."""
    machines: dict[str, str] = {}
    """For a provider: the virtual machine of each address in `servers`, as a file or an id."""
    snapshot: str = "init_state"
    """For a provider: the name of the snapshot."""
    seconds: PositiveFloat = 900.0
    """Longest time of a restore."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(map(bool, (self.command, self.url, self.provider))) != 1:
            raise ValueError("set one of command, url and provider")
        return self


class DesktopSpec(EnvironmentSpec):
    """Desktops with the OSWorld server protocol: your own machines, or desktops on this machine (extra `desktop`)."""

    kind: Literal["desktop"] = "desktop"
    """Desktops with the OSWorld server protocol."""
    servers: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Addresses of your machines, e.g. `http://10.0.0.7:5000`; if empty, desktops are started here."""
    tasks: Path | None = None
    """Folder of OSWorld task files; by default the tasks of the package."""
    packaged: Annotated[bool, LATER] = True
    """Whether a run without `tasks` gets the packaged tasks; `false` for a run on graphs only."""
    held_out: Fraction = 0.25
    """Share of the tasks that only measure the policy."""
    validation: Fraction = 0.15
    """Share of the tasks that decides promotion."""
    osworld: Annotated[OsworldSpec | None, LATER] = None
    """OSWorld's own code, for the tasks of `tasks`; without it, they may use what desktop.md lists."""
    restore: Annotated[RestoreSpec | None, OPERATIONAL] = None
    """How a machine of `servers` is restored before its next task; without it, a second task is refused."""

    @property
    def task_folder(self) -> Path:
        from trajmill.stages.environments.desktop.task import packaged_tasks

        return self.tasks or packaged_tasks()

    @property
    def slow_seconds(self) -> float:
        return sum(each.seconds for each in (self.restore, self.osworld) if each)

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.desktop.environment import LocalDesktops, RemoteDesktops

        if self.servers:
            return RemoteDesktops(self.servers, self.task_folder, osworld=self.osworld, restore=self.restore)
        return LocalDesktops(self.task_folder, osworld=self.osworld)

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.desktop.task import import_tasks
        from trajmill.stages.environments.tasks import ImportedQueries

        if self.tasks is None and not self.packaged:
            return ImportedQueries([], [])
        if self.tasks is not None and self.osworld is not None:
            from trajmill.stages.environments.desktop.osworld.tasks import import_checked

            return await import_checked(self.tasks, self.osworld, self.held_out, origin, self.validation)
        made = import_tasks(self.task_folder, self.held_out, origin, self.validation)
        # Trying a task at its start uses up a machine that cannot be restored.
        can_try = not self.servers or self.restore is not None
        return ImportedQueries(made, [], untried=self.tasks is not None and can_try)
