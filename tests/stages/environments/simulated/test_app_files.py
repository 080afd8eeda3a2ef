import asyncio
from pathlib import Path

import pytest

from tests.stages.critics.little_app import ORIGIN
from tests.stages.queries.samples import metadata_of
from trajmill.stages.environments.simulated.app_files.loader import Mistake, YamlFile, parse_yaml, read_yaml
from trajmill.stages.environments.simulated.app_files.references import texts_of
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import TaskGraph, load_world
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries


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
    assert line("- a\n") == 1
    assert line("") == 1
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
    known = set(words_of(texts_of(world.apps.values(), [task.spec for task in world.tasks()])))
    wanted = GraphQueriesSpec(train=60, heldout_slots=20, heldout_phrasings=20, heldout_apps=0, heldout_app_names=())
    made = asyncio.run(generate_queries(world, wanted, 1, ORIGIN))
    said = set(words_of(query.instruction for query in made.queries))
    assert len(made.queries) > 80 and not said - known
    for query in made.queries[::10]:
        environment = SimulatedEnvironment(world, query.platform)
        seen = environment.reset_now(query, 1)
        assert not set(words_of(each.text for each in seen.elements or () if each.clickable)) - known
    assert {"Margherita", "Quattro", "19:30", "Extra", "+", "Back"} <= known and "append" not in known


def test_pages_carry_their_settings_in_the_order_of_the_screen(order: TaskGraph) -> None:
    metadata = metadata_of(order, dish="Pad Thai", note="ring twice", spicy=True, size="Large")
    by_page = {page.page: [(s.label, s.kind, s.value) for s in page.settings] for page in metadata.pages}
    assert by_page["bites.home"] == [("categories", "list", "Noodles")]
    assert by_page["bites.menu"] == [("dishes", "list", "Pad Thai")]
    assert by_page["bites.dish"] == [("Size", "choice", "Large"), ("Extra spicy", "switch", "on")]
    assert by_page["bites.checkout"] == [("Note for the kitchen", "field", "ring twice")]
    assert [page.leave_by for page in metadata.pages] == ["", "", "Go to checkout", "Place order", ""]
    constraints = metadata_of(order, dish="Pad Thai", size="Large").constraints
    assert [slot.name for slot in constraints] == ["dish", "size"], "only what the user asks for"
    assert constraints[0].words == ("Pad Thai",) and "large" in constraints[1].words
