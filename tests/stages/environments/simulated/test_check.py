import re
from pathlib import Path

import pytest

from tests.stages.environments.simulated.worlds import DOCS, PAPER, garden
from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.simulated.app_files.check import builtin_files, read_files, read_with_builtin
from trajmill.stages.environments.simulated.world import load_world

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


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("kind: switch", "kind: swich", "unknown kind `swich`"),
        ("id: water,", "id: amount,", "another widget of the screen has the id `amount`"),
        ("variable: feed}", "variable: memo}", "a checkbox needs true or false"),
        ("minimum: 1", "minimum: 2", "outside the stepper"),
        ("name: $plant, amount: $amount", "name: $plnt, amount: $amount", "unknown variable `plnt`"),
        ("do: [{append", "do: [{apend", "unknown effect"),
        ("do: [{append: {waterings:", "do: [{append: {plants:", "unknown list"),
        ('note: "{room}"', 'note: "{rom}"', "has no field `rom`"),
        ("items: plants", "items: plans", "unknown list `plans`"),
        ("name: Basil", "name: Cactus", "the name `Cactus` is twice"),
        ("{name: Basil, room", "{nam: Basil, room", "an item needs a `name`"),
        ("first: home", "first: hom", "unknown screen `hom`"),
        ("to: plant}", "to: watered}", "no widget leads to the screen `plant`"),
        ("plant: [watered], watered: []", "plant: [watered]", "`watered` is not among the pages"),
        ("home: [plant], plant", "hme: [plant], plant", "unknown screen `hme`"),
        ("page: home, widget: plants", "page: home, widget: pants", "`pants` is no widget of `home`"),
        ("      - {name: plant, page: home, widget: plants}\n", "", "is a list; add a slot"),
        ("values: [2, 3]", "values: [2, 9]", "`amount` does not offer `9`"),
        ("values: [2, 3]", 'values: ["2"]', "`amount` does not offer `2`"),
        ("goal: {waterings", "goal: {watering", "unknown state `watering`"),
        ("feed: $feed, memo: \"\"}", "feed: $fed, memo: \"\"}", "unknown slot `$fed`"),
        ("goal: {waterings: {append", "goal: {holiday: 3, waterings: {append", "write a value of the same type"),
        ("the {plant}{clauses}\"", "the {plant}\"", "the template lacks `{clauses}`"),
        ("the {plant}{clauses}\"", "the {plnt} {plant}{clauses}\"", "names `{plnt}`"),
        ("[please] (water", "[please (water", "do not pair up"),
        ("feed: [and add plant food]", "fed: [and]", "the optional slot `feed` has no clause"),
        ("#3E7C4F", "green", "is no colour"),
        ("platform: phone", "platform: tablet", "`tablet` is not allowed here"),
        ("holiday: false}", "holiday: }", "there is no value"),
        ("state: {waterings", "state: {memo: x, waterings", "the name `memo` is used twice"),
        ("values: [2, 3]", "values: [2, 3000000000000000]", "the number is too large"),
        ("minimum: 1, maximum: 5", "minimum: 1, maximum: 5000", "a stepper has at most 1000 steps"),
        ("pages: {home: [plant]", "pages: {home: plant", "expected a list, found `plant`"),
    ],
)  # fmt: skip
def test_each_mistake_is_found_at_its_line(tmp_path: Path, right: str, wrong: str, message: str) -> None:
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
