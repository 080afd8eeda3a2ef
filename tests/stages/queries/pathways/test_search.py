"""The walk over a program: what it finds, what it never touches, what it survives."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.pathways.toy import PROGRAM, ToyFactory
from trajmill.schemas.errors import BadInputError, FailureClass, ModelFailure
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import EndKind, Pathway
from trajmill.stages.environments.desktop.task import parse_task
from trajmill.stages.graphs.explore.deny_list import deny_list, packaged_deny_list
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.prompts import PromptedModel
from trajmill.stages.queries.pathways.programs import WalkBounds, WalkResult, packaged_programs, read_programs
from trajmill.stages.queries.pathways.search import deep_search, needs_by_model, needs_by_tree, selection_prompt

BOUNDS = WalkBounds(seconds=20, seconds_per_step=0.2)


def walk(origin: Origin, bounds: WalkBounds = BOUNDS, factory: ToyFactory | None = None) -> WalkResult:
    return asyncio.run(deep_search(factory or ToyFactory(), PROGRAM, bounds, packaged_deny_list(), origin))


def names(pathway: Pathway) -> str:
    return " > ".join(step.name for step in pathway.steps)


def test_menus_dialogs_and_tabs_are_found_with_the_boxes_on_the_way(origin: Origin) -> None:
    walked = walk(origin)
    found = {names(pathway): pathway for pathway in walked.pathways}
    assert found["File"].end_kind is EndKind.MENU
    assert found["Edit > Convert > To Red"].end_kind is EndKind.MENU_ITEM
    assert not found["Edit > Convert > To Red"].enabled
    dialog = found["File > Open..."]
    assert (dialog.end_kind, dialog.end_name, dialog.pressed) == (EndKind.DIALOG, "Open", True)
    assert [step.bounds for step in dialog.steps] == [Box(0, 20, 90, 40), Box(0, 50, 200, 75)]
    tab = found["File > Open... > Sizes"]
    assert (tab.end_kind, tab.shows[0].state) == (EndKind.TAB, "selected")
    assert {step.screen_id for pathway in walked.pathways for step in pathway.steps} <= walked.screens.keys()


def test_denied_entries_are_recorded_but_never_pressed(origin: Origin) -> None:
    factory = ToyFactory()
    found = {names(pathway): pathway for pathway in walk(origin, factory=factory).pathways}
    assert not found["File > Quit..."].pressed
    assert {"Quit...", "Print..."}.isdisjoint(factory.log)


def test_what_crashes_hangs_or_ends_the_program_is_noted_and_the_walk_goes_on(origin: Origin) -> None:
    factory = ToyFactory()
    walked = walk(origin, factory=factory)
    told = {failure.message.partition(":")[0] for failure in walked.failures}
    assert told == {"File > Crash...", "File > Hang...", "File > Vanish..."}
    assert "Edit > Convert > To Blue" in map(names, walked.pathways)
    # A crash or a hang costs the instance, a program that ended only a reset.
    assert factory.log.count("start") == 3 and factory.log.count("close") == 3


def test_a_walk_with_too_many_failures_ends_with_its_results_so_far(origin: Origin) -> None:
    walked = walk(origin, BOUNDS.model_copy(update={"failures": 0}))
    assert [failure.message[:21] for failure in walked.failures][-1] == "the walk ended early:"
    assert "File" in map(names, walked.pathways) and "Edit" not in map(names, walked.pathways)


def test_a_walk_without_steps_left_says_so_and_keeps_its_results(origin: Origin) -> None:
    walked = walk(origin, BOUNDS.model_copy(update={"steps": 2}))
    assert walked.tally.steps == 2
    assert walked.failures[-1].failure_class is FailureClass.LIMIT
    assert walked.pathways


def test_depth_and_breadth_bound_the_walk(origin: Origin) -> None:
    shallow = walk(origin, BOUNDS.model_copy(update={"depth": 1}))
    assert max(len(pathway.steps) for pathway in shallow.pathways) == 2
    narrow = walk(origin, BOUNDS.model_copy(update={"breadth": 1}))
    assert {pathway.steps[0].name for pathway in narrow.pathways} == {"File"}


def test_escape_comes_back_without_a_reset(origin: Origin) -> None:
    factory = ToyFactory()
    walk(origin, factory=factory)
    # One to begin with, and one after each of the three branches that broke.
    assert factory.log.count("reset") == 4


def test_a_program_that_shows_late_is_waited_for_and_one_that_never_does_is_a_failure(origin: Origin) -> None:
    on_time = walk(origin)
    late = walk(origin, factory=ToyFactory(looks_until_shown=3))
    assert [each.pathway_id for each in late.pathways] == [each.pathway_id for each in on_time.pathways]
    never = walk(origin, factory=ToyFactory(looks_until_shown=1000))
    assert [failure.failure_class for failure in never.failures] == [FailureClass.SETUP] and not never.pathways


def test_dialogs_and_menus_that_open_late_are_found_all_the_same(origin: Origin) -> None:
    calm, slow = walk(origin), walk(origin, factory=ToyFactory(opens_late=2))
    assert sorted(map(names, slow.pathways)) == sorted(map(names, calm.pathways))
    assert sorted(each.message for each in slow.failures) == sorted(each.message for each in calm.failures)


def test_a_walk_that_finds_nothing_says_so(origin: Origin) -> None:
    everything = deny_list(["file", "edit"])
    walked = asyncio.run(deep_search(ToyFactory(), PROGRAM, BOUNDS, everything, origin))
    assert not walked.pathways and "shows nothing that opens" in walked.failures[0].message


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("Quit", True),
        ("_Quit", True),
        ("Log Out...", True),
        ("Log  out", True),
        ("Delete line", True),
        ("Footprints", False),
        ("Printing office", False),
        ("Closest match", False),
        ("Preferences...", False),
    ],
)
def test_denied_words_are_whole_words(text: str, denied: bool) -> None:
    assert packaged_deny_list().denies(text) is denied


BOUNDS = WalkBounds(seconds=20, seconds_per_step=0.2)


def found(origin: Origin) -> WalkResult:
    return walk(origin)._replace(failures=())


def needing(pathways: tuple[Pathway, ...]) -> set[str]:
    return {pathway.steps[-1].name for pathway in pathways if pathway.needs_selection}


def test_what_is_disabled_without_a_selection_and_enabled_with_one_needs_it(origin: Origin) -> None:
    told = asyncio.run(needs_by_tree(ToyFactory(), PROGRAM, found(origin), BOUNDS, origin))
    assert needing(told.pathways) == {"Copy", "To Red"}
    assert {pathway.selection_by for pathway in told.pathways} == {"tree"}
    assert not told.failures


def test_a_program_without_anything_to_select_is_left_open(origin: Origin) -> None:
    program = PROGRAM.model_copy(update={"selecting": ()})
    told = asyncio.run(needs_by_tree(ToyFactory(), program, found(origin), BOUNDS, origin))
    assert {pathway.needs_selection for pathway in told.pathways} == {None}


def test_a_model_is_asked_only_where_the_tree_shows_nothing_and_may_fail(origin: Origin) -> None:
    def answer(request: ChatRequest) -> str | ModelFailure:
        question = str(request.messages[1].parts[0])
        if "Colours" in question or "Sizes" in question:
            return ModelFailure("no answer")
        return json.dumps({"why": "it works on an object", "needs_selection": "To Blue" in question})

    model = ScriptedModel(answer)
    shown = asyncio.run(needs_by_tree(ToyFactory(), PROGRAM, found(origin), BOUNDS, origin))
    told = asyncio.run(needs_by_model(PromptedModel(model, selection_prompt()), PROGRAM, shown, origin))
    assert needing(told.pathways) == {"Copy", "To Red", "To Blue"}
    assert {p.steps[-1].name: p.selection_by for p in told.pathways}["To Blue"] == f"writer_selection-1@{model.version}"
    assert len(told.failures) == 1 and len(told.pathways) == len(shown.pathways)
    assert not any("Copy" in str(request.messages[1].parts[0]) for request in model.asked)


def test_the_packaged_programs_have_start_states_that_a_desktop_understands() -> None:
    programs = read_programs(packaged_programs())
    assert {"mousepad", "galculator", "pcmanfm", "libreoffice-writer", "libreoffice-calc"} == {p.name for p in programs}
    for program in programs:
        parse_task({"id": program.name, "instruction": "", **json.loads(program.start_state)}, program.name)
        assert bool(program.selecting) == bool(program.selection)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- name: x\n  title: the x\n", "start_state: Field required"),
        ("- name: x\n  title: the x\n  start_state: {}\n  colour: red\n", "colour: Extra inputs"),
        ("- name: [\n", "no list of programs"),
        ("3\n", "no list of programs"),
    ],
)
def test_a_wrong_file_gives_one_error_line_that_names_it(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "programs.yaml"
    file.write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_programs(file)
    assert said in str(caught.value) and str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_a_program_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(BadInputError, match="no program 'gimp'; there are mousepad"):
        read_programs(packaged_programs(), ("gimp",))
