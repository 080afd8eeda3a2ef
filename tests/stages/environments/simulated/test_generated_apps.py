"""Apps made by the grammar: deterministic, without mistakes, unlike each other and unlike the held-out apps."""

import asyncio
import re
from itertools import combinations, islice
from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Split
from trajmill.stages.environments.kinds import GeneratedAppsSpec, SimulatedSpec
from trajmill.stages.environments.simulated.app_files.check import read_files
from trajmill.stages.environments.simulated.app_files.references import texts_of
from trajmill.stages.environments.simulated.device import Device
from trajmill.stages.environments.simulated.generated import grammar
from trajmill.stages.environments.simulated.generated.generate import (
    ALIKE,
    GeneratedApp,
    generated_apps,
    likeness,
    write_apps,
)
from trajmill.stages.environments.simulated.generated.grammar import Grammar, packaged_grammar
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import check_app_files, generate_queries

DOMAINS = len(packaged_grammar().domains)
GENERATED = SimulatedSpec(generated_apps=GeneratedAppsSpec(count=5, per_round=2, seed=3))
ORIGIN = Origin(round=1, run_id="test", code_version="")


@pytest.fixture(scope="module")
def apps() -> list[GeneratedApp]:
    """One app of each domain, and five more."""
    return list(islice(generated_apps(7), DOMAINS + 5))


def test_an_app_depends_on_seed_and_place_and_not_on_the_count(apps: list[GeneratedApp]) -> None:
    assert [app.file for app in islice(generated_apps(7), 3)] == [app.file for app in apps[:3]]
    assert next(generated_apps(8)).file != apps[0].file
    assert {app.domain for app in apps[:DOMAINS]} == packaged_grammar().domains.keys()
    assert DOMAINS >= 30


def test_the_files_are_read_back_without_mistakes(apps: list[GeneratedApp], tmp_path: Path) -> None:
    some = apps[::4]
    reading = read_files(write_apps(some, tmp_path / "apps"))
    assert reading.mistakes == ()
    assert [file.spec for file in reading.apps] == [app.spec for app in some]
    with pytest.raises(BadInputError, match=r"holds other files, such as .*name a new or empty folder"):
        write_apps(some, tmp_path / "apps")


@pytest.mark.slow
def test_every_path_of_a_task_can_be_walked(apps: list[GeneratedApp], tmp_path: Path) -> None:
    assert check_app_files(write_apps(apps[:2], tmp_path / "apps")) == []


def test_apps_have_all_kinds_of_widgets_pages_and_changes(apps: list[GeneratedApp]) -> None:
    screens = [screen for app in apps for screen in app.spec.screens.values()]
    widgets = {widget.kind for screen in screens for widget in screen.all_widgets()}
    assert widgets >= {"button", "list", "choice", "switch", "checkbox", "stepper", "field", "search", "menu", "value"}
    assert {screen.layout for screen in screens} == {"", "rows", "grid", "start", "end"}
    assert any(screen.dialog for screen in screens)
    assert {app.spec.platform for app in apps} == {Platform.PHONE, Platform.DESKTOP}
    tasks = [task for app in apps for task in app.spec.tasks.values()]
    changed = {
        key for task in tasks for change in task.goal.values() for key in getattr(change, "model_fields_set", ())
    }
    assert changed >= {"append", "update", "remove"}
    assert max(len(task.pages) for task in tasks) >= 6
    assert len({text for task in tasks for text in task.phrasings}) > 5 * len(tasks) - len(tasks)


def test_no_two_apps_are_nearly_alike(apps: list[GeneratedApp]) -> None:
    assert max(likeness(one, other) for one, other in combinations(apps, 2)) < ALIKE
    words = packaged_grammar().words
    alone = Grammar(words=words, domains={"clinic": packaged_grammar().domains["clinic"]})
    poor = alone.model_copy(update={"words": words.model_copy(update={"texts": words.texts | {"plus": ("",)}})})
    with pytest.raises(BadInputError, match=r"no further app about 'clinic' after .* apps; ask for fewer"):
        list(generated_apps(0, poor))


def test_the_grammar_has_no_words_of_apps_that_are_held_out(world: World) -> None:
    folder = Path(grammar.__file__).parent
    ours = "\n".join(path.read_text().lower() for path in sorted(folder.glob("*.yaml")))
    heldout = [world.apps[name] for name in ("stride", "photos", "rides")]
    of_devices = set(map(_bare, texts_of([], [])))
    texts = {_bare(text) for app in heldout for text in texts_of([app], app.tasks.values())} - of_devices
    phrases = {text for text in texts if " " in text}
    assert len(phrases) > 100
    assert {text for text in phrases if re.search(rf"\b{re.escape(text)}\b", ours)} == set()


def _bare(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .,:!?")


def test_generated_apps_are_on_devices_of_their_own(world: World) -> None:
    mixed = GENERATED.navigation_graph()
    new = mixed.apps[mixed.generated[0]]
    profile = DeviceProfile(3)
    together = {app.app for app in Device(mixed, new.platform, profile, beside=new.app).icons()}
    assert new.app in together
    assert 0 < len(together - world.apps.keys()) <= 4
    assert together & world.apps.keys() == {app.app for app in world.apps_on(new.platform)}
    for platform in (Platform.PHONE, Platform.DESKTOP):
        assert Device(mixed, platform, profile).icons() == Device(world, platform, profile).icons()


def test_each_round_has_the_next_apps_and_begins_again() -> None:
    pool = set(GENERATED.navigation_graph().generated)
    rounds = [pool - GENERATED.resting_apps(number) for number in (1, 2, 3, 4)]
    assert [len(each) for each in rounds] == [2, 2, 2, 2]
    assert not rounds[0] & rounds[1]
    assert set.union(*rounds) == pool
    few = GENERATED.model_copy(update={"generated_apps": GeneratedAppsSpec(count=5, seed=3)})
    assert few.resting_apps(9) == frozenset()
    assert SimulatedSpec().resting_apps(1) == frozenset()


def test_a_folder_of_app_files_is_used_like_generated_ones(apps: list[GeneratedApp], tmp_path: Path) -> None:
    write_apps(apps[:2], tmp_path / "apps")
    spec = SimulatedSpec(generated_apps=GeneratedAppsSpec(folders=(tmp_path / "apps",)))
    assert set(spec.navigation_graph().generated) == {app.file["app"] for app in apps[:2]}
    with pytest.raises(BadInputError, match=r"has no file .*yaml; run trajmill apps generate"):
        SimulatedSpec(generated_apps=GeneratedAppsSpec(folders=(tmp_path,))).navigation_graph()


def test_the_identity_of_a_run_without_generated_apps_is_unchanged() -> None:
    assert "generated_apps" not in SimulatedSpec().identity()
    assert SimulatedSpec().identity() != GENERATED.identity()


@pytest.mark.slow
def test_only_training_has_queries_of_generated_apps_and_the_others_stay_as_they_were(world: World) -> None:
    settings = GraphQueriesSpec(train=40, heldout_slots=10, heldout_phrasings=10, heldout_apps=6, validation=6)
    mixed = GENERATED.navigation_graph()
    found = asyncio.run(generate_queries(mixed, settings, 1, ORIGIN))
    before = asyncio.run(generate_queries(world, settings, 1, ORIGIN))
    new = [query for query in found.queries if mixed.generated_of(query.apps)]
    assert {query.split for query in new} == {Split.TRAIN}
    assert {app for query in new for app in query.apps} == set(mixed.generated)
    assert tuple(query for query in found.queries if query not in new) == before.queries
    assert leaks_in_queries(found.queries, settings.heldout_app_names) == ()
