"""The kinds of environments: the table of the configuration of each, and those that installed packages add."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import known_by, refuse_unknown
from trajmill.schemas.spec import OPERATIONAL, Fraction, Spec
from trajmill.stages.environments.android.spec import AndroidSpec
from trajmill.stages.environments.base import refuse_without
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.spec import EnvironmentSpec, FixedTasksSpec, MissingKey, TaskFileSpec
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory, GoalDistances
    from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec
    from trajmill.stages.environments.simulated.world import World
    from trajmill.stages.environments.tasks import ImportedQueries

ENVIRONMENTS = PartGroup(
    "trajmill.environments",
    "environment",
    {
        "simulated": f"{__name__}:SimulatedSpec",
        "miniwob": f"{__name__}:MiniWobSpec",
        "webapp": f"{__name__}:WebAppSpec",
        "browser": f"{__name__}:BrowserSpec",
        "state_api": f"{__name__}:StateApiSpec",
        "browsergym": f"{__name__}:BrowserGymSpec",
        "android": f"{__package__}.android.spec:AndroidSpec",
        "desktop": "trajmill.stages.environments.desktop.spec:DesktopSpec",
        "devices": f"{__name__}:DevicesTogetherSpec",
        "openenv": f"{__name__}:OpenEnvSpec",
    },
)


class FaultRates(Spec):
    """The rates of faults in the simulated world; the seed of the episode decides when they happen."""

    slow: Fraction = 0.03
    """A new page of an app is loading until the next action."""
    lost_tap: Fraction = 0.0
    """A press has no effect."""
    popup: Fraction = 0.1
    """An app that is opened shows a dialog that asks for a rating, or an advertisement in its lists."""
    crash: Fraction = 0.0
    """A step fails, and with it the episode."""


class DevicesSpec(Spec):
    """How much the simulated devices differ. There are eight looks; two are used in evaluation only."""

    orders: PositiveInt = 1
    """Random orders of icons and lists for each look; more of them keep a policy from memorising one."""
    dark: bool = True
    """Whether every other look has the dark theme."""
    large_text: bool = True
    """Whether half of the looks have larger text."""
    layouts: bool = True
    """Whether looks also differ in layout: list items, buttons, toggles and fields take the whole width, or
    stand in two columns, at the left, or at the right. Presses then spread over the screen."""


def _builtin_names() -> list[str]:
    return sorted(file.stem for file in (Path(__file__).parent / "simulated" / "apps").glob("*.yaml"))


_BuiltinApp = Annotated[str, known_by(lambda name: refuse_unknown([name], _builtin_names(), "there is no app"))]


class AppFilesSpec(EnvironmentSpec):
    """An environment that runs app files: queries are sampled from their graph, and judged by their annotations."""

    apps: tuple[Path, ...] = ()
    """Your own app files (YAML, see apps.md), beside the built-in ones."""
    builtin_apps: tuple[_BuiltinApp, ...] | None = None
    """Ids of the built-in apps to include; all by default."""

    def navigation_graph(self) -> World:
        """Load the apps once in a process; raises BadInputError if a file is wrong, or an app is unknown."""
        from trajmill.stages.environments.simulated.world import shared_world

        return shared_world(self.apps, self.builtin_apps)

    def app_names(self, folder: Path) -> list[str]:
        """Ids of the apps by the lines `app: ID` of their files; to load the files takes seconds."""
        texts = ((folder / path).read_text("utf-8", "replace") for path in self.apps if (folder / path).is_file())
        found = (re.search(r"^app: *[\"']?([\w-]+)", text, re.MULTILINE) for text in texts)
        builtin = _builtin_names() if self.builtin_apps is None else self.builtin_apps
        return sorted({*builtin, *(each[1] for each in found if each)})

    def described_apps(self) -> tuple[AppSpec, ...]:
        return tuple(self.navigation_graph().apps.values())


class GeneratedAppsSpec(Spec):
    """Apps from a grammar (see apps.md), for training queries only. A device has a few of them or none.

    Each of their queries gets as many episodes as one of your own apps, on top of `rollout.episodes_per_round`.
    """

    count: NonNegativeInt = 0
    """Number of apps to generate, as `trajmill apps generate` does."""
    seed: NonNegativeInt = 0
    """Seed of the generated apps."""
    folders: tuple[Path, ...] = ()
    """Folders of app files to use in the same way."""
    per_round: PositiveInt = 25
    """Largest number of these apps in a round; the next round takes the next ones."""

    @property
    def any_wanted(self) -> bool:
        return self.count > 0 or bool(self.folders)


class SimulatedSpec(AppFilesSpec):
    """The simulated phone and desktop, which need only this package."""

    draws_screens: ClassVar[bool] = True

    kind: Literal["simulated"] = "simulated"
    """The simulated phone and desktop."""
    faults: FaultRates = FaultRates()
    """The rates of faults."""
    devices: DevicesSpec = DevicesSpec()
    """How much the devices differ."""
    generated_apps: GeneratedAppsSpec = GeneratedAppsSpec()
    """More apps to train on."""

    def navigation_graph(self) -> World:
        from trajmill.stages.environments.simulated.world import shared_world

        generated = self.generated_apps if self.generated_apps.any_wanted else None
        return shared_world(self.apps, self.builtin_apps, generated)

    def resting_apps(self, round_number: int) -> frozenset[str]:
        if not self.generated_apps.any_wanted:
            return frozenset()
        pool, size = self.navigation_graph().generated, self.generated_apps.per_round
        first = (round_number - 1) * size
        return frozenset(pool) - {pool[(first + place) % len(pool)] for place in range(size)}

    def added_apps(self) -> frozenset[str]:
        return frozenset(self.navigation_graph().generated)

    def identity(self) -> dict[str, Any]:
        """Return all keys that decide rows; `generated_apps` only if there are some."""
        wanted = self.generated_apps.any_wanted
        return {key: value for key, value in super().identity().items() if key != "generated_apps" or wanted}

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.simulated.environment import SimulatedFactory

        return SimulatedFactory(self.navigation_graph(), platform, self.faults, self.devices)

    def goal_distances(self) -> GoalDistances:
        from trajmill.stages.environments.simulated.distance import SimulatedDistances

        return SimulatedDistances(self.navigation_graph(), self.faults, self.devices)


SuiteName = Literal["all", "basic", "debug"]


class MiniWobSpec(FixedTasksSpec):
    """MiniWoB++ in headless Chromium (extra `web`)."""

    kind: Literal["miniwob"] = "miniwob"
    """The pages of MiniWoB++."""
    suite: SuiteName = "basic"
    """The pages: `all` that work, `basic` for 23 with presses and short texts, or `debug` for three."""
    tasks: tuple[str, ...] = ()
    """Names of pages, in place of the suite."""
    train_seeds: PositiveInt = 8
    """Instances of each task for training."""
    heldout_seeds: PositiveInt = 4
    """Instances of each task that only measure the policy."""
    validation_seeds: NonNegativeInt = 3
    """Instances of each task that decide which policy is promoted."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        refuse_without("web", "playwright")
        from trajmill.stages.environments.miniwob.environment import MiniWobFactory

        return MiniWobFactory()

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.miniwob.pages import refuse_unknown_pages, suite_pages

        pages = self.tasks or suite_pages(self.suite)
        refuse_unknown_pages(pages, "environment.tasks")
        from trajmill.stages.environments.miniwob.environment import import_queries
        from trajmill.stages.environments.tasks import splits_of_seeds

        splits = splits_of_seeds(self.train_seeds, self.heldout_seeds, self.validation_seeds)
        return await import_queries(pages, splits, seed, origin)


class WebAppSpec(AppFilesSpec):
    """The apps of the simulated phone and desktop as a web app in headless Chromium (extra `web`)."""

    kind: Literal["webapp"] = "webapp"
    """The simulated apps in a real browser."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        refuse_without("web", "playwright")
        from trajmill.stages.environments.webapp.environment import WebAppFactory

        return WebAppFactory(self.navigation_graph(), platform)


class BrowserSpec(TaskFileSpec):
    """Any web sites in headless Chromium (extra `web`)."""

    line: ClassVar[str] = f"{__package__}.browser.task:WebTask"

    kind: Literal["browser"] = "browser"
    """Any web site."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        refuse_without("web", "playwright")
        from trajmill.stages.environments.browser.environment import BrowserFactory

        return BrowserFactory(platform)


class StateApiSpec(TaskFileSpec):
    """Web applications with a state API in headless Chromium (extra `web`)."""

    line: ClassVar[str] = f"{__package__}.state_api.task:StateTask"

    kind: Literal["state_api"] = "state_api"
    """Web applications with a state API, such as those of CUA-Gym-Hub."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        refuse_without("web", "playwright")
        from trajmill.stages.environments.state_api.environment import StateApiFactory

        return StateApiFactory(platform)

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        """As of every task file; BadInputError if a server has no state API, or does not keep sessions apart."""
        from trajmill.stages.environments.state_api.server import check_servers

        found = await super().own_queries(seed, origin)
        await check_servers(json.loads(query.start_state)["url"] for query in found.queries)
        return found


class BrowserGymSpec(FixedTasksSpec):
    """Tasks of BrowserGym (extra `browsergym`)."""

    kind: Literal["browsergym"] = "browsergym"
    """BrowserGym."""
    tasks: tuple[str, ...] = (
        "miniwob.click-button",
        "miniwob.click-dialog",
        "miniwob.click-link",
        "miniwob.enter-text",
    )
    """Names of its tasks, without `browsergym/`."""
    train_seeds: PositiveInt = 4
    """Instances of each task for training."""
    heldout_seeds: PositiveInt = 2
    """Instances of each task that only measure the policy."""
    validation_seeds: NonNegativeInt = 2
    """Instances of each task that decide which policy is promoted."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.browsergym.environment import BrowserGymFactory

        return BrowserGymFactory()

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.browsergym.environment import import_tasks
        from trajmill.stages.environments.tasks import splits_of_seeds

        splits = splits_of_seeds(self.train_seeds, self.heldout_seeds, self.validation_seeds)
        return await import_tasks(self.tasks, splits, seed, origin)


class OpenEnvSpec(FixedTasksSpec):
    """Environments that run at servers of `trajmill env serve`, or at other servers with the same fields."""

    kind: Literal["openenv"] = "openenv"
    """Environments at servers of the OpenEnv protocol."""
    servers: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Their addresses, e.g. `http://10.0.0.7:8000`; all serve the same queries."""
    token_file: Annotated[Path | None, OPERATIONAL] = None
    """File with the token that the servers ask for; without a file, no token is sent."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.openenv.environment import ServerSessions

        return ServerSessions(self.servers, self._token(), platform=platform)

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.openenv.environment import served_queries
        from trajmill.stages.environments.tasks import ImportedQueries

        return ImportedQueries(await served_queries(self.servers, self._token(), origin), [])

    def missing(self, other_queries: bool) -> list[MissingKey]:
        return [] if self.servers else [MissingKey("servers", 'is missing: write e.g. ["http://10.0.0.7:8000"]')]

    def _token(self) -> str:
        return "" if self.token_file is None else read_token(self.token_file)


def read_token(file: Path) -> str:
    """The token in a file. Raises BadInputError if the file cannot be read, or it has not exactly one short line."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file}: {getattr(error, 'strerror', error)}; name a file with the token") from None
    if not token or len(token) > 1000 or not token.isprintable() or " " in token:
        raise BadInputError(f"{file}: no token; write at most 1,000 letters, digits and signs in one line")
    return token


class DevicesTogetherSpec(TaskFileSpec):
    """A phone, a desktop and a browser in one episode, for the agent `light_manus`."""

    line: ClassVar[str] = f"{__package__}.devices.environment:TaskAcross"

    kind: Literal["devices"] = "devices"
    """Several devices in one episode."""
    tasks: Path | None = None
    """File with tasks across devices: one JSON object in each line (see agents.md)."""
    simulated: SimulatedSpec = SimulatedSpec()
    """The simulated phone and desktop."""
    android: AndroidSpec | None = None
    """Android devices, in place of the simulated phone."""
    desktop: DesktopSpec | None = None
    """Desktops, in place of the simulated one."""
    browser: BrowserSpec | None = None
    """A browser, beside phone and desktop."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.schemas.tables.query import Platform
        from trajmill.stages.environments.devices.environment import DevicesFactory

        specs: dict[Platform, EnvironmentSpec | None] = {
            Platform.PHONE: self.android or self.simulated,
            Platform.DESKTOP: self.desktop or self.simulated,
            Platform.WEB: self.browser,
        }
        return DevicesFactory({name: spec.factory(name) for name, spec in specs.items() if spec}, platform)

    def described_apps(self) -> tuple[AppSpec, ...]:
        from trajmill.schemas.tables.query import Platform

        real = {Platform.PHONE: self.android, Platform.DESKTOP: self.desktop}
        return tuple(app for app in self.simulated.described_apps() if real.get(app.platform) is None)
