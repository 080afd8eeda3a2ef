import asyncio
import re
from itertools import combinations, islice
from pathlib import Path

import pytest

from tests.stages.environments.simulated.worlds import DOCS, PAPER, garden
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Split
from trajmill.stages.environments.kinds import GeneratedAppsSpec, SimulatedSpec
from trajmill.stages.environments.simulated.app_files.check import builtin_files, read_files, read_with_builtin
from trajmill.stages.environments.simulated.app_files.loader import Mistake, YamlFile, parse_yaml, read_yaml
from trajmill.stages.environments.simulated.app_files.references import texts_of
from trajmill.stages.environments.simulated.device import Device
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
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
from trajmill.stages.environments.simulated.world import World, load_world
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import check_app_files, generate_queries

ELSEWHERE = {
    "name: Cactus": "name: Cactus",
    "to: watered}": "  plant:\n    title",
    "": "pages:",
    "fed: [and]": "name: feed",
}


def mistakes(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "garden.yaml"
    path.write_text(text, encoding="utf-8")
    return [str(mistake).removeprefix(f"{path}:") for mistake in read_files([path]).mistakes]


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_each_mistake_is_found_at_its_line(tmp_path: Path) -> None:
    for right, wrong, message in (
        ("kind: switch", "kind: swich", "unknown kind `swich`"),
        ("id: water,", "id: amount,", "another widget of the screen has the id `amount`"),
        ("variable: feed}", "variable: memo}", "a checkbox needs true or false"),
        ("do: [{append", "do: [{apend", "unknown effect"),
        ("do: [{append: {waterings:", "do: [{append: {plants:", "unknown list"),
        ('note: "{room}"', 'note: "{rom}"', "has no field `rom`"),
        ("name: Basil", "name: Cactus", "the name `Cactus` is twice"),
        ("{name: Basil, room", "{nam: Basil, room", "an item needs a `name`"),
        ("first: home", "first: hom", "unknown screen `hom`"),
        ("to: plant}", "to: plant, hold: plants}", "unknown screen `plants`"),
        ("hint: Memo,", "hint: Memo, enter: watr,", "unknown button `watr`"),
        ("to: plant}", "to: watered}", "no widget leads to the screen `plant`"),
        ("      - {name: plant, page: home, widget: plants}\n", "", "is a list; add a slot"),
        ("values: [2, 3]", 'values: ["2"]', "`amount` does not offer `2`"),
        ("goal: {waterings", "goal: {watering", "unknown state `watering`"),
        ('feed: $feed, memo: ""}', 'feed: $fed, memo: ""}', "unknown slot `$fed`"),
        ("goal: {waterings: {append", "goal: {holiday: 3, waterings: {append", "write a value of the same type"),
        ('the {plant}{clauses}"', 'the {plant}"', "the template lacks `{clauses}`"),
        ("[please] (water", "[please (water", "do not pair up"),
        ("feed: [and add plant food]", "fed: [and]", "the optional slot `feed` has no clause"),
        ("#3E7C4F", "green", "is no colour"),
        ("platform: phone", "platform: tablet", "`tablet` is not allowed here"),
        ("state: {waterings", "state: {memo: x, waterings", "the name `memo` is used twice"),
        ("values: [2, 3]", "values: [2, 3000000000000000]", "the number is too large"),
        ("minimum: 1, maximum: 5", "minimum: 1, maximum: 5000", "a stepper has at most 1000 steps"),
        ("pages: {home: [plant]", "pages: {home: plant", "`plant` should be a list in [brackets]"),
    ):
        text = garden()
        assert text.count(right) >= 1
        found = mistakes(tmp_path, text.replace(right, wrong, 1))
        hits = [each for each in found if message in each]
        assert hits, found
        assert all(re.match(r"\d+: .+(; .+|\?)", each) for each in found), found
        # A broken name is reported where it is used: `elsewhere` says where that is not the line that was changed.
        assert int(hits[0].partition(":")[0]) == line_of(text, ELSEWHERE.get(wrong, right)), hits


def test_lines_are_exact_and_an_unknown_key_hides_no_other_mistake(tmp_path: Path) -> None:
    text = garden()
    wrong = text.replace("text: Holiday mode", "txt: Holiday mode").replace("text: Cups", "text: Cups, colour: red")
    lines = {int(each.partition(":")[0]) for each in mistakes(tmp_path, wrong)}
    assert lines == {line_of(text, "text: Holiday mode"), line_of(text, "text: Cups")}
    found = mistakes(
        tmp_path, text.replace("text: Cups", "text: Cups, colour: red").replace("first: home", "first: hom")
    )
    assert "unknown key `colour`" in found[0] and "unknown screen `hom`" in found[1]
    assert any("menus are for desktop" in each for each in mistakes(tmp_path, PAPER.replace("desktop", "phone")))


@pytest.mark.slow
def test_ids_and_names_of_other_apps_are_taken(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.yaml" for number in range(3)]
    for file in files:
        file.write_text(garden(), encoding="utf-8")
    assert [each.file for each in read_with_builtin(files).mistakes] == [str(file) for file in files[1:]]
    path = tmp_path / "garden.yaml"
    path.write_text(garden().replace("app: garden", "app: bites"), encoding="utf-8")
    assert [each.line for each in read_with_builtin([path]).mistakes if "already defined in" in each.text] == [1]
    path.write_text(garden().replace("name: Garden", "name: Bites"), encoding="utf-8")
    assert [each.line for each in read_with_builtin([path]).mistakes if "already used in" in each.text] == [2]


@pytest.mark.slow
def test_builtin_files_are_right_and_loading_a_wrong_one_is_bad_input(tmp_path: Path) -> None:
    assert [str(mistake) for mistake in read_with_builtin(builtin_files()).mistakes] == []
    path = tmp_path / "wrong.yaml"
    path.write_text("app: wrong\n", encoding="utf-8")
    with pytest.raises(BadInputError, match=r"wrong\.yaml:1: the key `name` is missing"):
        load_world([path])


@pytest.mark.slow
def test_errands_are_checked_against_their_apps(tmp_path: Path) -> None:
    errand = """
errand: tour
apps: [garden, bites]
tasks:
  both:
    description: Two apps
    pages: {garden.home: [bites.menu], bites.menu: []}
    goal: {garden.holiday: true}
    always: {garden.home: {holiday: true}}
    phrasings: [go on holiday]
    heldout_phrasings: [holiday]
"""
    garden_file, errand_file = tmp_path / "garden.yaml", tmp_path / "tour.yaml"
    garden_file.write_text(garden(), encoding="utf-8")
    errand_file.write_text(errand, encoding="utf-8")
    found = [str(each) for each in read_with_builtin([garden_file, errand_file]).mistakes]
    assert len(found) == 1
    assert "entered on the screen that opens; lead to `bites.home`" in found[0]
    errand_file.write_text(errand.replace("bites.menu", "bites.home"), encoding="utf-8")
    assert not read_with_builtin([garden_file, errand_file]).mistakes
    errand_file.write_text(errand.replace("[garden, bites]", "[garden, bits]"), encoding="utf-8")
    (mistake,) = read_with_builtin([garden_file, errand_file]).mistakes
    assert "unknown app `bits`" in str(mistake)


def test_the_page_shows_what_the_checker_prints(tmp_path: Path) -> None:
    text = garden()
    shown = re.search(r"```\n(garden\.yaml:.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    changes = [
        ("text: Holiday mode", "txt: Holiday mode"),
        ("variable: amount", "variable: amuont"),
        ("to: watered,", "to: waterd,"),
        ("watered: []}", "watered: [home]}"),
        ("home: [plant], plant: [watered]", "home: [plant, watered], plant: [watered]"),
        ("plant: [watered], watered", "plant: [], watered"),
        ("the {plant}{clauses}", "the plant{clauses}"),
    ]
    for line, (right, wrong) in zip(shown[1].splitlines(), changes, strict=True):
        assert line.removeprefix("garden.yaml:") in mistakes(tmp_path, text.replace(right, wrong, 1)), line


def read(text: str) -> YamlFile:
    source = parse_yaml("a.yaml", text)
    assert isinstance(source, YamlFile), source
    return source


def test_only_plain_whole_numbers_and_true_and_false_are_not_text() -> None:
    text = "{a: 7, b: -3, c: 07, d: 7:30, e: 9.50, f: yes, g: on, h: true, i: 'true', j: 0, k: 2026-11-20}"
    expected = {"a": 7, "b": -3, "c": "07", "d": "7:30", "e": "9.50", "f": "yes", "g": "on", "h": True, "i": "true"}
    assert read(text).data == {**expected, "j": 0, "k": "2026-11-20"}


def test_mistakes_of_form_name_their_line(tmp_path: Path) -> None:
    def line(text: str) -> int:
        mistake = parse_yaml("a.yaml", text)
        assert isinstance(mistake, Mistake), text
        return mistake.line

    assert line("a: 1\nb: [1, 2\nc: 3\n") in (2, 3)
    assert line("a: 1\nb: 2\na: 3\n") == 3
    assert line("a: &x [1]\nb: *x\n") in (1, 2)
    assert line("a: 1\nb: !!python/object:os.system x\n") == 2
    assert line("- a\n") == line("") == 1
    assert line("a: 1\nb: " + "[" * 200_000) == 2
    assert line("a: 1\nb: " + "1" * 5000) == 2
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\xfe")
    for path in (tmp_path / "none.yaml", tmp_path / "latin.yaml", tmp_path):
        assert isinstance(read_yaml(path), Mistake)


MARKET = Path(__file__).parents[4] / "docs" / "examples" / "market.yaml"


@pytest.mark.slow
def test_all_words_of_instructions_and_screens_are_known() -> None:
    from trajmill.stages.models.untrained import words_of

    world = load_world([MARKET], ["bites", "clock"])
    known = set(words_of(texts_of(world.apps.values(), [task.spec for task in world.tasks])))
    none = dict.fromkeys(("heldout_apps", "infeasible", "answers"), 0)  # Such models neither answer nor give up.
    wanted = GraphQueriesSpec(train=60, heldout_slots=20, heldout_phrasings=20, heldout_app_names=(), **none)
    made = asyncio.run(generate_queries(world, wanted, 1, ORIGIN))
    said = set(words_of(query.instruction for query in made.queries))
    assert len(made.queries) > 80 and not said - known
    for query in made.queries[::10]:
        environment = SimulatedEnvironment(world, query.platform)
        seen = environment.reset_now(query, 1)
        assert not set(words_of(each.text for each in seen.elements or () if each.clickable)) - known
    assert {"Margherita", "Quattro", "19:30", "Extra", "+", "Back"} <= known and "append" not in known


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


@pytest.mark.slow
def test_the_files_are_read_back_without_mistakes_and_their_tasks_can_be_walked(
    apps: list[GeneratedApp], tmp_path: Path
) -> None:
    files = write_apps(apps[:2], tmp_path / "apps")
    assert check_app_files(files) == []
    assert [file.spec for file in read_files(files).apps] == [app.spec for app in apps[:2]]


def test_apps_have_all_kinds_of_widgets_pages_and_changes(apps: list[GeneratedApp]) -> None:
    screens = [screen for app in apps for screen in app.spec.screens.values()]
    widgets = {widget.kind for screen in screens for widget in screen.all_widgets()}
    assert widgets >= {"button", "list", "choice", "switch", "checkbox", "stepper", "field", "search", "menu", "value"}
    assert {screen.layout for screen in screens} == {"", "rows", "grid", "start", "end"}
    assert {app.spec.platform for app in apps} == {Platform.PHONE, Platform.DESKTOP}
    tasks = [task for app in apps for task in app.spec.tasks.values()]
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
    settings = GraphQueriesSpec(train=20, heldout_slots=4, heldout_phrasings=4, heldout_apps=3, validation=3)
    mixed = GENERATED.navigation_graph()
    found = asyncio.run(generate_queries(mixed, settings, 1, ORIGIN))
    before = asyncio.run(generate_queries(world, settings, 1, ORIGIN))
    new = [query for query in found.queries if mixed.generated_of(query.apps)]
    assert {query.split for query in new} == {Split.TRAIN}
    assert {app for query in new for app in query.apps} == set(mixed.generated)
    assert tuple(query for query in found.queries if query not in new) == before.queries
    assert leaks_in_queries(found.queries, settings.heldout_app_names) == ()
