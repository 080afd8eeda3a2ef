import io
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from PIL import Image

from tests.http_server import QuietHandler, serving
from tests.stages.derive.samples import DONE, PHONE, TAP, episode, step
from tests.stages.derive.screens import DrawnScreens, tools_of
from tests.stages.derive.screens import derived as derived_by
from tests.stages.environments.simulated.worlds import NO_FAULTS, query_of
from tests.stages.models.scripted import ScriptedModel, SeveralModel
from trajmill.schemas.actions import Click
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply, bare_call
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Box, Point, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.grounding.boxes import regions
from trajmill.stages.derive.grounding.colours import colour_name, element_colours
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


def instructions(seen: Observation) -> set[str]:
    spec = GroundingSpec(instructions=("appearance",))
    tools = tools_of(spec, ObservedScreens(defaultdict(lambda: seen)))
    return set(said(derived_by(spec, episode([step(0, TAP), step(1, DONE)]), tools, frozenset({0})), "appearance"))


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
    world = shared_world(())
    seen = SimulatedEnvironment(world, platform, NO_FAULTS).reset_now(query_of(platform), 3)
    found = instructions(seen)
    assert found == expected
    icons = [element for element in seen.elements or () if element.role == "icon"]
    named = element_colours(seen.screen.encode(), [icon.bounds for icon in icons])
    colours = {app.name: app.color for app in world.apps_on(platform)}
    for icon in icons:
        name = colour_name(*bytes.fromhex(colours[icon.text][1:]))
        assert named[icon.bounds].name in ("", name)


def test_colours_have_common_names_and_a_box_off_the_screen_has_none() -> None:
    named = {
        "#ffffff": "white", "#101010": "black", "#808080": "grey", "#c02020": "red", "#7a4a08": "brown",
        "#0a4a18": "dark green", "#00695c": "", "#c58b00": "", "#ad1457": "", "#546e7a": "", "#e8eef9": "",
    }  # fmt: skip
    for code, name in named.items():
        assert colour_name(*bytes.fromhex(code[1:])) == name, code
    seen = SimulatedEnvironment(shared_world(()), Platform.PHONE, NO_FAULTS).reset_now(query_of(Platform.PHONE), 3)
    size, image = seen.screen.size, seen.screen.encode()
    boxes = [Box(0, 0, size.width, size.height), Box(-9, -9, 5, 5), Box(size.width, 0, size.width + 9, 9)]
    assert element_colours(image, boxes)[boxes[2]].name == ""


@pytest.mark.parametrize("model_class", [SeveralModel, ScriptedModel])
def test_rl_takes_what_the_policy_hits_with_some_of_its_samples(model_class: type[ScriptedModel]) -> None:
    family = family_named("qwen2.5-vl")
    dialect = family.dialect(Platform.PHONE)

    def press(request: ChatRequest) -> str | ModelFailure:
        asked, lucky = str(request.messages[1].parts[0]), request.seed % 4 == 0
        if "House" in asked:
            return ModelFailure("the server is gone")
        hit = "Share" in asked or ('Use "Save"' in asked and lucky)
        at = (SHARE if "Share" in asked else SAVE).bounds.center if hit else Point(5, 5)
        return "I see." if not hit and lucky else bare_call(Click(x=at.x, y=at.y), dialect, native_frame(PHONE))

    model, spec = model_class(press), GroundingRLSpec(instructions=("functional",), dense_from=4, region_elements=2)
    screens = DrawnScreens({"s0": TREE, "s1": TREE}, COLOURS)
    tools = tools_of(spec, screens)._replace(policy=AgentModel(model, family, 1.0))
    rows = derived_by(spec, episode([step(0, TAP), step(1, DONE)]), tools, frozenset({0}))
    kept = [row for row in rows.examples if row.variant == "functional"]
    assert [(row.box, row.kind, row.messages[1].content[-18:]) for row in kept] == [
        (SAVE.bounds, "grounding_rl", 'Use "Save".<image>')
    ]
    assert {reason for _, reason in refused(rows)} >= {"always_hit"}
    assert rows.failures and "the server is gone" in rows.failures[0].message
    (first, *_) = model.asked
    assert first.messages[0].parts == (dialect.system_prompt(native_frame(PHONE)),)
    assert (first.n, first.temperature) == (8 if model_class is SeveralModel else 1, 1.0)
    assert isinstance(first.messages[1].parts[1], ScreenHandle)


def test_rl_needs_a_policy_that_reads_images() -> None:
    with pytest.raises(BadInputError, match=r"map models.policy to an \[endpoints.NAME\]"):
        GroundingRLSpec().refuse_without({"writer": "embedded", "policy": "embedded"}, "embedded")
