"""The spec of LightManus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.spec import EMBEDDED_ROLE, POLICY_MODEL, ActingRole, RolesSpec, given_model

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Query
    from trajmill.stages.agents.base import Agent, AgentMaker, AgentModel


class LightManusPrompts(Spec):
    """Prompt files of your own for the roles, in place of those that come with trajmill (see agents.md)."""

    parser: Path | None = None
    """For the division into atomic tasks."""


class LightManusSpec(RolesSpec):
    """Does each atomic task of a task on its device (paper NaturalGAIA, 4.1); each device has an executor."""

    role_names: ClassVar[tuple[str, ...]] = ("parser", "phone", "desktop", "web")

    kind: Literal["light_manus"] = "light_manus"
    """Tasks across devices, with `environment.kind = "devices"`."""
    parser: Annotated[str, OPERATIONAL] = EMBEDDED_ROLE
    """Divides the task: `embedded` (at "On the phone", "On the desktop"), the NAME of an `[endpoints.NAME]`, or `off`.
    Its model needs no images."""
    phone: ActingRole = POLICY_MODEL
    """The executor on the phone: `policy` (`models.policy`), or the NAME of an `[endpoints.NAME]`."""
    desktop: ActingRole = POLICY_MODEL
    """The executor on the desktop: `policy`, or the NAME of an `[endpoints.NAME]`."""
    web: ActingRole = POLICY_MODEL
    """The executor in the browser: `policy`, or the NAME of an `[endpoints.NAME]`."""
    devices: Annotated[tuple[Platform, ...], Field(min_length=1)] = (Platform.PHONE, Platform.DESKTOP)
    """The devices of the environment: `phone`, `desktop`, `web`."""
    prompts: LightManusPrompts = LightManusPrompts()
    """Prompt files of your own."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        from trajmill.stages.agents.light_manus.agent import LightManus, embedded_parser
        from trajmill.stages.agents.roles import RoleOpener

        given, own = given_model(model), self.prompts.parser
        opener = RoleOpener(self, given, "trajmill.stages.agents.light_manus")
        parser = opener.role("parser", embedded_parser, "parser-1", own)

        def make(query: Query) -> Agent:
            devices = dict.fromkeys((query.platform, *self.devices))
            executors = {name: opener.acting("executor", name, name) for name in devices}
            return LightManus(executors, parser, query.platform, given.model.version)

        return make
