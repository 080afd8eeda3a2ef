import importlib.util
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from PIL import Image

from tests.http_server import QuietHandler, serving
from tests.stages.derive.samples import DONE, TAP, episode, step
from tests.stages.derive.screens import DrawnScreens, WrittenScreens, tools_of
from tests.stages.derive.screens import derived as derived_by
from tests.stages.environments.simulated.worlds import NO_FAULTS, query_of
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.actions import Click
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.grounding.boxes import regions
from trajmill.stages.derive.grounding.colours import element_colours
from trajmill.stages.derive.grounding.instructions import Instruction, NoInstruction
from trajmill.stages.derive.grounding.words import ReadLetter, ReadLine, TextRules, text_instructions
from trajmill.stages.derive.spec import GroundingRLSpec, GroundingSpec
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.models.base import ChatModel, ChatRequest

CLICKABLE = ("clickable",)


def element(
    text: str, at: tuple[int, int, int, int], role: str = "button", states: tuple[str, ...] = CLICKABLE, value: str = ""
) -> UIElement:
    return UIElement(role, text, Box(*at), states, value)


SAVE = element("Save", (24, 200, 696, 300))
SHARE = element("Share", (24, 320, 696, 420))
HOUSE = element("House", (24, 440, 696, 540), "radio", value="Folder")
WORK = element("Work", (24, 560, 696, 660), "radio", ("clickable", "checked"), "Folder")
TREE = (element("New note", (148, 62, 696, 134), "heading", ()), SAVE, SHARE, HOUSE, WORK)
COLOURS = {"Save": "#c02020", "Share": "#2050c0"}


def derived(
    tree: Sequence[UIElement], spec: GroundingSpec | None = None, writer: ChatModel | None = None
) -> tuple[DerivedRows, DrawnScreens]:
    screens = DrawnScreens({"s0": tuple(tree), "s1": tuple(tree)}, COLOURS)
    spec = spec or GroundingSpec()
    given = episode([step(0, TAP), step(1, DONE)])
    return derived_by(spec, given, tools_of(spec, screens, writer), frozenset({0})), screens


def said(rows: DerivedRows, variant: str) -> dict[str, Box | None]:
    prefix = "Answer with the call alone, without a thought. Press the element that this describes: "
    found = [row for row in rows.examples if row.variant == variant]
    return {row.messages[1].content.removeprefix(prefix).removesuffix("<image>"): row.box for row in found}


def refused(rows: DerivedRows) -> set[tuple[str | None, str]]:
    return {(row.variant, row.reason) for row in rows.refusals}


def test_each_sort_of_instruction_points_at_its_element_and_its_reply_presses_within_the_box() -> None:
    rows, _ = derived(TREE)
    choices = {'Use "Save".': SAVE.bounds, 'Use "Share".': SHARE.bounds, 'Choose "House" as Folder.': HOUSE.bounds}
    assert said(rows, "functional") == choices
    assert said(rows, "appearance") == {"The red button.": SAVE.bounds, "The blue button.": SHARE.bounds}
    assert ("appearance", "no_colour") in refused(rows)
    assert said(rows, "layout")['The button directly below "Save".'] == SHARE.bounds
    assert ("functional", "chosen_already") in refused(rows)
    for row in rows.examples:
        reply = GuiOwlMobile().parse(row.messages[-1].content, native_frame(Size(720, 1280)))
        assert isinstance(reply, Reply) and row.box is not None and isinstance(reply.action, Click)
        assert row.box.contains(reply.action.x, reply.action.y)
        assert (row.step_index, row.source_screens, row.written_by) == (0, ("s0",), "template")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (element("Save", (0, 0, 5, 5)), "too_small"),
        (element("Save", (700, 0, 760, 40)), "off_screen"),
        (element("Save", (0, 0, 50, 50), states=("clickable", "disabled")), "disabled"),
        (element("…", (0, 0, 50, 50)), "no_text"),
        (element("long " * 20, (0, 0, 50, 50)), "long_text"),
        (element("an <image>", (0, 0, 50, 50)), "placeholder_in_text"),
    ],
)
def test_an_element_that_cannot_be_pointed_at_is_refused(made: UIElement, reason: str) -> None:
    rows, _ = derived([made])
    assert rows.examples == ()
    assert refused(rows) == {(None, reason), (None, "no_target")}


def test_ambiguous_covered_and_undetected_elements_are_refused() -> None:
    twice = [element("Open", (0, top, 700, top + 50)) for top in (0, 100)]
    rows, _ = derived(twice)
    assert {reason for _, reason in refused(rows)} == {"ambiguous", "no_target"}
    dialog = element("Sure?", (100, 180, 600, 320), "dialog", ())
    rows, _ = derived([SAVE, dialog])
    assert {reason for _, reason in refused(rows)} == {"covered", "no_target"}
    found = [24 / 720, 210 / 1280, 690 / 720, 300 / 1280]
    with omniparser({"parsed_content_list": [{"type": "text", "bbox": found, "content": "Save"}]}) as address:
        rows, _ = derived(TREE, GroundingSpec(instructions=("functional",), detector=address))
    assert {row.box for row in rows.examples} == {SAVE.bounds}
    assert (None, "no_detected_box") in refused(rows)


def test_a_dense_screen_is_cut_into_regions_that_cut_no_element() -> None:
    dense = [element(f"Entry {number}", (24, 40 + 90 * number, 696, 110 + 90 * number)) for number in range(12)]
    rows, screens = derived(dense, GroundingSpec(instructions=("functional",), region_elements=4))
    found = [row for row in rows.examples if row.variant == "dense"]
    assert len(found) == 12
    crops = {kept.screen.screen_id: kept for kept in screens.kept}
    for row in found:
        assert row.source_screens == ("s0",)
        crop = crops[row.screens[0]]
        with Image.open(io.BytesIO(crop.screen.encode())) as image:
            assert image.size == crop.screen.size
        assert row.box is not None
        assert any(other.bounds == row.box and other.text in row.messages[1].content for other in crop.elements or ())
    assert len(regions(dense, Size(720, 1280), 4)) == len(crops)


def rewriting(sentence: str) -> ScriptedModel:
    def answer(request: ChatRequest) -> str:
        count = int(str(request.messages[1].parts[0]).split()[0])
        return json.dumps({"instructions": [f"{sentence} {number}" for number in range(count)]})

    return ScriptedModel(answer)


def test_a_writer_rephrases_but_names_no_other_element_and_too_few_sentences_are_a_failure() -> None:
    spec = GroundingSpec(instructions=("functional",))
    rows, _ = derived(TREE, spec, rewriting("Please do it"))
    assert {row.written_by for row in rows.examples} == {"writer_rephrase-1@scripted-1"}
    rows, _ = derived(TREE, spec, rewriting("Press Share"))
    by_author = {row.box: row.written_by for row in rows.examples}
    assert by_author[SHARE.bounds] == "writer_rephrase-1@scripted-1"
    assert by_author[SAVE.bounds] == "template"
    assert ("functional", "rephrased_wrongly") in refused(rows)
    rows, _ = derived(TREE, writer=ScriptedModel(lambda request: json.dumps({"instructions": ["One."]})))
    assert rows.examples == ()
    assert "1 sentences for" in rows.failures[0].message


@contextmanager
def omniparser(answer: object) -> Iterator[str]:
    class Handler(QuietHandler):
        def reply(self) -> None:
            known = self.path == "/parse/" and "base64_image" in json.loads(self.body)
            self.answer(json.dumps(answer).encode(), 200 if known else 404)

    with serving(Handler) as url:
        yield url


@pytest.mark.parametrize("answer", [{}, {"parsed_content_list": [{"bbox": [0, 0, 700, 900]}]}, []])
def test_a_detector_that_answers_something_else_is_a_failure(answer: object) -> None:
    with omniparser(answer) as address:
        rows, _ = derived(TREE, GroundingSpec(detector=address))
    assert rows.examples == ()
    assert "parsed_content_list" in rows.failures[0].message


ICONS = {"red": "Mail", "orange": "Stride", "purple": "Calendar", "green": "Messages"}


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        (Platform.PHONE, {"The pink icon.", *(f'The {hue} icon with the text "{app}".' for hue, app in ICONS.items())}),
        (Platform.DESKTOP, {'The blue icon with the text "Files".'}),
    ],
)
def test_an_icon_has_the_colour_of_its_app_and_not_of_the_wallpaper(platform: Platform, expected: set[str]) -> None:
    """Wallet is teal, Notes mustard, Rides indigo, Photos crimson, Clock slate: no name on which people agree."""
    seen = SimulatedEnvironment(shared_world(()), platform, NO_FAULTS).reset_now(query_of(platform), 3)
    spec = GroundingSpec(instructions=("appearance",))
    tools = tools_of(spec, ObservedScreens(defaultdict(lambda: seen)))
    rows = derived_by(spec, episode([step(0, TAP), step(1, DONE)]), tools, frozenset({0}))
    assert set(said(rows, "appearance")) == expected
    beyond = Box(seen.screen.size.width, 0, seen.screen.size.width + 9, 9)
    assert element_colours(seen.screen.encode(), [beyond])[beyond].name == ""


def test_rl_needs_a_policy_that_reads_images() -> None:
    with pytest.raises(BadInputError, match=r"map models.policy to an \[endpoints.NAME\]"):
        GroundingRLSpec().refuse_without({"writer": "embedded", "policy": "embedded"}, "embedded")


RULES = TextRules(smallest=8, score=0.9, overlap=0.5)
ENTRIES = (
    element("Garden Friends", (24, 100, 696, 180), "list_item"),
    element("Monday: closed", (24, 200, 696, 280), "text", ()),
    element("Sunday: closed", (24, 300, 696, 380), "text", ()),
)


def line(text: str, top: int = 0, score: float = 1.0) -> ReadLine:
    letters = [ReadLetter(letter, Box(20 * at, top, 20 * at + 20, top + 30), score) for at, letter in enumerate(text)]
    return ReadLine(Box(0, top, 20 * len(text), top + 30), tuple(letters))


def made(
    lines: Sequence[ReadLine], elements: Sequence[UIElement] = (), detected: Sequence[Box] | None = None
) -> Iterator[Instruction | NoInstruction]:
    return text_instructions(lines, elements, detected, RULES)


def reasons(*lines: ReadLine, elements: Sequence[UIElement] = (), detected: Sequence[Box] | None = None) -> set[str]:
    return {one.reason for one in made(lines, elements, detected) if isinstance(one, NoInstruction)}


def test_words_and_characters_are_named_with_their_places_and_where_needed_their_line() -> None:
    one, letter, other, _ = made([line("Open house")])
    assert one == Instruction("word", 'The word "Open".', Box(0, 0, 80, 30))
    assert isinstance(other, Instruction)
    assert other.box == Box(100, 0, 200, 30)
    assert isinstance(letter, Instruction)
    assert letter.text == f'The letter "{"Open"[letter.box.left // 20]}" of the word "Open".'
    texts = [one.text for one in made([line("Monday: no"), line("Sunday: no", 50)]) if isinstance(one, Instruction)]
    assert 'The word "no" in "Sunday: no".' in texts
    assert "ambiguous" in reasons(line("no"), line("no", 50))


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (line("House", score=0.6), "unsure_text"),
        (line("***"), "no_text"),
        (line("an <image> x"), "placeholder_in_text"),
        (ReadLine(Box(0, 0, 4, 4), (ReadLetter("H", Box(0, 0, 4, 4), 1.0),)), "too_small"),
        (line("it"), "short_word"),
        (line("till"), "narrow_letters"),
        (line("moom"), "no_single_letter"),
    ],
)
def test_a_text_that_cannot_be_pointed_at_is_refused(read: ReadLine, reason: str) -> None:
    assert reason in reasons(read)


def test_a_misread_word_and_a_line_without_a_detected_box_are_refused() -> None:
    tree = [element("House", (0, 0, 100, 30))]
    assert "not_in_tree" not in reasons(line("House"), elements=tree)
    assert "not_in_tree" in reasons(line("Hause"), elements=tree)
    assert "no_detected_box" not in reasons(line("House"), detected=[Box(0, 0, 60, 30)])
    assert "no_detected_box" in reasons(line("House"), detected=[Box(0, 0, 40, 30)])


@pytest.mark.slow
def test_rapidocr_reads_the_words_of_a_screen() -> None:
    pytest.importorskip("rapidocr_onnxruntime", reason="the extra `ocr` is not installed", exc_type=ImportError)
    spec, screens = GroundingSpec(instructions=(), ocr="rapidocr"), WrittenScreens({"s0": ENTRIES})
    rows = derived_by(spec, episode([step(0, TAP), step(1, DONE)]), tools_of(spec, screens), frozenset({0}))
    words = said(rows, "word")
    read = ['"Garden"', '"Friends"', '"Monday:"', '"Sunday:"']
    read += [f'"closed" in "{day}: closed"' for day in ("Monday", "Sunday")]
    assert set(words) == {f"The word {word}." for word in read}
    assert len(said(rows, "character")) == 6
    garden, closed = words['The word "Garden".'], words['The word "closed" in "Sunday: closed".']
    assert garden is not None and ENTRIES[0].bounds.contains(*garden.center)
    assert closed is not None and ENTRIES[2].bounds.contains(*closed.center)


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    GroundingSpec().refuse_without({}, "embedded")
    with pytest.raises(BadInputError, match=r"pip install 'trajmill\[ocr\]'"):
        GroundingSpec(ocr="rapidocr").refuse_without({}, "embedded")
