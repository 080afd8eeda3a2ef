"""The walk over a program: what it finds, never touches and survives; then queries from it, really walked."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.pathways.toy import PROGRAM, ToyFactory, by_names
from tests.stages.queries.samples import making, passes, walk_all
from trajmill.schemas.errors import BadInputError, FailureClass, ModelFailure
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import EndKind, Pathway
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.environments.desktop.task import parse_task
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.prompts import PromptedModel
from trajmill.stages.queries.base import NewQueries, WalkQueries
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.pathways.programs import WalkBounds, WalkResult, packaged_programs, read_programs
from trajmill.stages.queries.pathways.search import deep_search, needs_by_model, needs_by_tree
from trajmill.stages.queries.pathways.source import PathwaySource
from trajmill.stages.queries.written import query_prompts

BOUNDS = WalkBounds(seconds=20, seconds_per_step=0.2)


async def walk(origin: Origin, factory: ToyFactory | None = None, **bounds: int) -> WalkResult:
    allowed = BOUNDS.model_copy(update=bounds)
    return await deep_search(factory or ToyFactory(), PROGRAM, allowed, packaged_deny_list(), origin)


@pytest.fixture(scope="module")
def log() -> list[str]:
    """What the walk of the module pressed, started and reset."""
    return []


@pytest.fixture(scope="module")
def walked(log: list[str], origin: Origin) -> WalkResult:
    return asyncio.run(walk(origin, ToyFactory(log)))


def test_menus_dialogs_and_tabs_are_found_with_the_boxes_on_the_way(walked: WalkResult) -> None:
    found = by_names(walked.pathways)
    assert found["File"].end_kind is EndKind.MENU
    assert found["Edit > Convert > To Red"].end_kind is EndKind.MENU_ITEM
    assert not found["Edit > Convert > To Red"].enabled
    dialog = found["File > Open..."]
    assert (dialog.end_kind, dialog.end_name, dialog.pressed) == (EndKind.DIALOG, "Open", True)
    assert [step.bounds for step in dialog.steps] == [Box(0, 20, 90, 40), Box(0, 50, 200, 75)]
    tab = found["File > Open... > Sizes"]
    assert (tab.end_kind, tab.shows[0].state) == (EndKind.TAB, "selected")
    assert {step.screen_id for pathway in walked.pathways for step in pathway.steps} <= walked.screens.keys()


def test_what_crashes_or_ends_the_program_is_noted_and_denials_are_kept(walked: WalkResult, log: list[str]) -> None:
    assert not by_names(walked.pathways)["File > Quit..."].pressed and {"Quit...", "Print..."}.isdisjoint(log)
    told = {failure.message.partition(":")[0] for failure in walked.failures}
    assert told == {"File > Crash...", "File > Hang...", "File > Vanish..."}
    assert "Edit > Convert > To Blue" in by_names(walked.pathways)
    # A crash or a hang costs the instance, a program that ended only a reset; Escape comes back without one.
    assert [log.count(each) for each in ("start", "close", "reset")] == [3, 3, 4]


async def test_the_bounds_of_a_walk_end_it_with_its_results_so_far(origin: Origin) -> None:
    broken = await walk(origin, failures=0)
    assert broken.failures[-1].message.startswith("the walk ended early:")
    assert "File" in by_names(broken.pathways) and "Edit" not in by_names(broken.pathways)
    short = await walk(origin, steps=2)
    assert short.tally.steps == 2 and short.failures[-1].failure_class is FailureClass.LIMIT and short.pathways
    assert max(len(pathway.steps) for pathway in (await walk(origin, depth=1)).pathways) == 2
    assert {pathway.steps[0].name for pathway in (await walk(origin, breadth=1)).pathways} == {"File"}


async def test_a_late_program_is_waited_for_and_one_that_is_not_fails(origin: Origin, walked: WalkResult) -> None:
    late = await walk(origin, ToyFactory(looks_until_shown=3))
    assert [each.pathway_id for each in late.pathways] == [each.pathway_id for each in walked.pathways]
    never = await walk(origin, ToyFactory(looks_until_shown=1000))
    assert [failure.failure_class for failure in never.failures] == [FailureClass.SETUP] and not never.pathways
    slow = await walk(origin, ToyFactory(opens_late=2))
    assert by_names(slow.pathways).keys() == by_names(walked.pathways).keys()
    assert sorted(each.message for each in slow.failures) == sorted(each.message for each in walked.failures)


def needing(pathways: tuple[Pathway, ...]) -> set[str]:
    return {pathway.steps[-1].name for pathway in pathways if pathway.needs_selection}


async def test_what_is_enabled_only_with_a_selection_needs_it(origin: Origin, walked: WalkResult) -> None:
    told = await needs_by_tree(ToyFactory(), PROGRAM, walked, BOUNDS, origin)
    assert needing(told.pathways) == {"Copy", "To Red"} and told.failures == walked.failures
    assert {pathway.selection_by for pathway in told.pathways} == {"tree"}
    program = PROGRAM.model_copy(update={"selecting": ()})
    told = await needs_by_tree(ToyFactory(), program, walked, BOUNDS, origin)
    assert {pathway.needs_selection for pathway in told.pathways} == {None}


async def test_a_model_is_asked_only_where_the_tree_is_empty_and_may_fail(origin: Origin, walked: WalkResult) -> None:
    def answer(request: ChatRequest) -> str | ModelFailure:
        question = str(request.messages[1].parts[0])
        if "Colours" in question or "Sizes" in question:
            return ModelFailure("no answer")
        return json.dumps({"why": "it works on an object", "needs_selection": "To Blue" in question})

    model = ScriptedModel(answer)
    shown = await needs_by_tree(ToyFactory(), PROGRAM, walked._replace(failures=()), BOUNDS, origin)
    told = await needs_by_model(PromptedModel(model, query_prompts().selection), PROGRAM, shown, origin)
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
    with pytest.raises(BadInputError, match="no program 'gimp'; there are mousepad"):
        read_programs(packaged_programs(), ("gimp",))


def test_a_wrong_file_gives_one_error_line_that_names_it(tmp_path: Path) -> None:
    for text, said in (
        ("- name: x\n  title: the x\n", "start_state is missing"),
        ("- name: x\n  title: the x\n  start_state: {}\n  colour: red\n", "colour is an unknown key"),
        ("- name: [\n", "no list of programs"),
    ):
        file = tmp_path / "programs.yaml"
        file.write_text(text)
        with pytest.raises(BadInputError) as caught:
            read_programs(file)
        assert said in str(caught.value) and str(file) in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def toy(origin: Origin, walked: WalkResult) -> WalkResult:
    """The walk with the needs of its pathways."""
    return asyncio.run(needs_by_tree(ToyFactory(), PROGRAM, walked, BOUNDS, origin))


async def made_of(toy: WalkResult, origin: Origin, most: int = 60, walk: WalkQueries = passes) -> NewQueries:
    return await making(PathwaySource(toy.pathways, [PROGRAM], most, share=0.2), walk, origin, seed=3)


def asking_for(end: str, queries: Sequence[Query]) -> Query:
    return next(query for query in queries if query.slots[0].value == end)


async def test_every_query_meets_its_goal_and_splits_share_nothing(toy: WalkResult, origin: Origin) -> None:
    queries, failures, _ = await made_of(toy, origin, walk=lambda drafts: walk_all(ToyFactory(), drafts, origin, 2))
    assert {(query.validation, query.source) for query in queries} == {("passed", Source.PATHWAY)}
    ends = {query.slots[0].value for query in queries}
    assert {"Open", "Sizes", "Convert", "To Red", "Copy"} <= ends and failures == ()
    assert {"Quit", "Print", "Paste"}.isdisjoint(ends)
    assert {query.split for query in queries} == set(Split) - {Split.HELDOUT_APPS}
    assert leaks_in_queries(queries, ()) == ()
    marked = [query.phrasing.split("/")[1].startswith("h") for query in queries]
    assert marked == [query.split is Split.HELDOUT_PHRASINGS for query in queries]
    few = (await made_of(toy, origin, most=2)).queries
    assert {query.task.partition(".")[2] for query in few} == {EndKind.DIALOG, EndKind.TAB}


async def test_a_selection_that_is_needed_is_asked_for_and_made(toy: WalkResult, origin: Origin) -> None:
    query = asking_for("To Red", (await made_of(toy, origin)).queries)
    assert PROGRAM.selection in query.instruction and query.path[0] == PROGRAM.selecting[0]
    without = query.model_copy(update={"path": query.path[1:]})
    (failure,) = (await walk_all(ToyFactory(), [without], origin)).failures
    assert "does not meet the goal check" in failure.message
