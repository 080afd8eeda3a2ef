"""The deep search: a depth-first walk over the pressable elements of a running program (paper 6.2, computers)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, FailureClass, ModelFailure
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import Pathway, PathwayStep
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.graphs.explore.deny_list import DenyList, packaged_deny_list
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt
from trajmill.stages.queries.base import failure
from trajmill.stages.queries.pathways.navigator import (
    ElementKey,
    ElementMissing,
    Navigator,
    OutOfBounds,
    PressResult,
    ProgramEnded,
    ProgramState,
    menu_entry,
    plain_name,
    press_result,
    promises_dialog,
)
from trajmill.stages.queries.pathways.programs import STAGE, PathwayProgram, WalkBounds, WalkResult, start_query

_OPENS_ALWAYS = frozenset({"menu", "tab"})
_COMMANDS = frozenset({"menu_item", "button", "link"})
_ENTRIES = frozenset({"menu", "menu_item"})
MADE_BY = "deep-search-1"
_WAITS_FOR_DIALOG = 4
"""Most waits for a dialog: a large program closes the menu some time before it shows the dialog."""


class _Node(NamedTuple):
    way: tuple[PathwayStep, ...]
    state: ProgramState
    known: frozenset[ElementKey]
    """Elements of the states before; they are pressed there."""
    before: frozenset[str]
    """Ids of the states on the way."""


async def deep_search(
    factory: EnvironmentFactory, program: PathwayProgram, bounds: WalkBounds, deny_list: DenyList, origin: Origin
) -> WalkResult:
    """Find the pathways of a program: press elements that open something, and go back by Escape or reset and replay.

    The walk presses menus, tabs, and elements that announce a dialog by an ellipsis; other entries and buttons only if
    the program allows it (`PathwayProgram.presses_commands`). A menu entry on the deny list is recorded and never
    pressed. A program that ends or hangs is reset, and the branch becomes a failure. It raises nothing: a walk that
    cannot begin is a failure, too. The factory is left open.
    """
    navigator = Navigator(factory, start_query(program, origin), program.opening, bounds)
    walk = _Walk(navigator, program, bounds, deny_list, origin)
    try:
        await walk.run()
    except OutOfBounds:
        walk.fail("the walk ended early: its steps or seconds were used up", FailureClass.LIMIT)
    except EnvironmentFailure as error:
        walk.fail(f"the walk ended early: {error}", error.failure_class)
    finally:
        await walk.navigator.give_up()
    return WalkResult(tuple(walk.found.values()), tuple(walk.failures), walk.screens, walk.navigator.tally)


@dataclass
class _Walk:
    navigator: Navigator
    program: PathwayProgram
    bounds: WalkBounds
    deny_list: DenyList
    origin: Origin
    found: dict[str, Pathway] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    screens: dict[str, Observation] = field(default_factory=dict)
    visited: set[str] = field(default_factory=set)
    broken: int = 0
    app: str = ""

    async def run(self) -> None:
        state = await self.navigator.reset()
        self.app = state.observation.app
        self.visited.add(state.state_id)
        await self._expand(_Node((), state, frozenset(), frozenset()))
        if not self.found and not self.failures:
            self.fail("its tree shows nothing that opens a menu, a dialog or a tab", FailureClass.ENVIRONMENT)

    def fail(self, message: str, failure_class: FailureClass) -> None:
        name = self.program.name
        self.failures.append(failure(name, message, self.origin, MADE_BY, failure_class, stage=STAGE))

    async def _expand(self, node: _Node) -> None:
        new = {key: element for key, element in node.state.elements.items() if key not in node.known and key.text}
        for key, element in new.items():
            if key.role in _ENTRIES and node.way:
                self._record((*node.way, self._step(key, node.state)), menu_entry(key), element, pressed=False)
        if len(node.way) >= self.bounds.depth:
            return
        for key in [key for key, element in new.items() if self._is_pressed(key, element)][: self.bounds.breadth]:
            opened = await self._press(node, key)
            if opened is not None and opened.state.state_id not in self.visited:
                self.visited.add(opened.state.state_id)
                await self._expand(opened)

    def _is_pressed(self, key: ElementKey, element: UIElement) -> bool:
        is_command = key.role in _COMMANDS and (self.program.presses_commands or promises_dialog(key.text))
        in_front = key.role == "tab" and "selected" in element.states
        opens = (key.role in _OPENS_ALWAYS or is_command) and not in_front
        return opens and element.clickable and not self.deny_list.denies(key.text)

    async def _press(self, node: _Node, key: ElementKey) -> _Node | None:
        try:
            before = await self.navigator.go_to(node.way)
            if key not in before.elements:
                # Once more, from a reset.
                self.navigator.forget()
                before = await self.navigator.go_to(node.way)
            if key not in before.elements:
                raise ElementMissing(f"{key.target} is not there again")
            way = (*node.way, self._step(key, before))
            after = await self.navigator.press(way)
            opened = press_result(key, before, after)
            for _ in range(_WAITS_FOR_DIALOG):
                if opened is not None or not promises_dialog(key.text):
                    break
                after = await self.navigator.wait(way)
                opened = press_result(key, before, after)
            if not after.alive:
                raise ProgramEnded("the program has ended, or shows nothing")
            if self.app and not after.observation.app:
                raise ProgramEnded("the program is no longer in front")
        except EnvironmentFailure as error:
            await self._record_broken_branch(node, key, error)
            return None
        states = node.before | {node.state.state_id}
        if opened is None or after.state_id in states:
            # An entry that opened nothing is a command or a switch.
            known = self.found.get(self._id(way))
            if known is not None:
                self.found[known.pathway_id] = known.model_copy(update={"pressed": True})
            return None
        self._record(way, opened, before.elements[key], pressed=True)
        return _Node(way, after, node.known | frozenset(node.state.elements), states)

    async def _record_broken_branch(self, node: _Node, key: ElementKey, error: EnvironmentFailure) -> None:
        """Record a branch that failed and prepare a reset, in a new environment if the old one failed."""
        place = " > ".join([*(step.name for step in node.way), key.text])
        self.fail(f"{place}: {error}", error.failure_class)
        if isinstance(error, ElementMissing):
            return
        self.broken += 1
        if isinstance(error, ProgramEnded):
            self.navigator.forget()
        else:
            await self.navigator.give_up()
        if self.broken > self.bounds.failures:
            raise EnvironmentFailure(f"more than {self.bounds.failures} branches broke", error.failure_class)

    def _record(self, way: tuple[PathwayStep, ...], end: PressResult, element: UIElement, pressed: bool) -> None:
        pathway_id = self._id(way)
        if pathway_id in self.found and not pressed:
            return
        self.found[pathway_id] = Pathway(
            pathway_id=pathway_id,
            platform=self.program.platform,
            program=self.program.name,
            environment=self.navigator.environment_name,
            start_state=self.program.start_state,
            steps=way,
            end_kind=end.kind,
            end_name=end.name or plain_name(way[-1].name),
            pressed=pressed,
            enabled=element.clickable,
            shows=end.shows,
            needs_selection=None,
            selection_by="",
            found_after=round(self.navigator.tally.seconds, 3),
            **self.origin.common(made_by=MADE_BY),
        )

    def _step(self, key: ElementKey, state: ProgramState) -> PathwayStep:
        screen_id = state.observation.screen.screen_id
        self.screens[screen_id] = state.observation
        bounds = state.elements[key].bounds
        return PathwayStep(role=key.role, name=key.text, target=key.target, bounds=bounds, screen_id=screen_id)

    def _id(self, way: tuple[PathwayStep, ...]) -> str:
        return Pathway.make_id(self.program.name, self.program.start_state, tuple(step.target for step in way))


TREE = "tree"
ROLE = "writer"
_MAX_TOKENS = 300


class ClassifiedPathways(NamedTuple):
    pathways: tuple[Pathway, ...]
    failures: tuple[Failure, ...]


class SelectionAnswer(Record):
    why: str
    needs_selection: bool


async def collect_pathways(
    factory: EnvironmentFactory,
    program: PathwayProgram,
    bounds: WalkBounds,
    origin: Origin,
    second_opinion: PromptedModel | None = None,
) -> WalkResult:
    walked = await deep_search(factory, program, bounds, packaged_deny_list(), origin)
    classified = await needs_by_tree(factory, program, walked.pathways, bounds, origin)
    failures = (*walked.failures, *classified.failures)
    if second_opinion is not None:
        classified = await needs_by_model(second_opinion, program, classified.pathways, origin)
        failures += classified.failures
    return walked._replace(pathways=classified.pathways, failures=failures)


async def needs_by_tree(
    factory: EnvironmentFactory,
    program: PathwayProgram,
    pathways: Sequence[Pathway],
    bounds: WalkBounds,
    origin: Origin,
) -> ClassifiedPathways:
    """Find which pathways need a selection: go to their disabled ends again, with something selected.

    By the tree, a pathway whose end can be pressed without a selection needs none; an end that is disabled in both
    walks needs something else. Without something to select in the program, the pathways stay as they are. `bounds`
    hold for this second walk; the factory is left open.
    """
    if not program.selecting:
        return ClassifiedPathways(tuple(pathways), ())
    opening = (*program.opening, *program.selecting)
    navigator = Navigator(factory, start_query(program, origin), opening, bounds)
    # Two screens may have shown the same menu, hence the targets as keys.
    by_parent: dict[tuple[str, ...], tuple[tuple[PathwayStep, ...], list[Pathway]]] = {}
    for pathway in pathways:
        if not pathway.enabled:
            way = pathway.steps[:-1]
            by_parent.setdefault(tuple(step.target for step in way), (way, []))[1].append(pathway)
    needs = {each.pathway_id: False for each in pathways if each.enabled}
    failures: list[Failure] = []
    try:
        for way, ends in by_parent.values():
            try:
                state = await navigator.go_to(way)
            except EnvironmentFailure as error:
                failures.append(_failure(ends[0], str(error), error.failure_class, origin, TREE))
                await navigator.give_up()
                continue
            usable = {key.target for key, element in state.elements.items() if element.clickable}
            needs |= {each.pathway_id: each.steps[-1].target in usable for each in ends}
    except OutOfBounds:
        message = "the walk with a selection ended early: its steps or seconds were used up"
        first = next(ends[0] for _, ends in by_parent.values())
        failures.append(_failure(first, message, FailureClass.LIMIT, origin, TREE))
    finally:
        await navigator.give_up()
    classified = [
        each.model_copy(update={"needs_selection": needs[each.pathway_id], "selection_by": TREE})
        if each.pathway_id in needs
        else each
        for each in pathways
    ]
    return ClassifiedPathways(tuple(classified), tuple(failures))


def selection_prompt(own: Path | None = None) -> Prompt:
    """Read the prompt; raises BadInputError if the user's file cannot be read, or lacks a section or a field."""
    return load_prompt("trajmill.stages.queries.pathways", "writer_selection-1", own)


async def needs_by_model(
    second_opinion: PromptedModel, program: PathwayProgram, pathways: Sequence[Pathway], origin: Origin
) -> ClassifiedPathways:
    """Ask a model, with `selection_prompt`, about each pathway for which the tree shows no need of a selection.

    A need that the tree has shown (disabled without a selection, enabled with one) is kept. A pathway for which the
    model gives no answer stays as it is, and there is a failure.
    """
    classified: list[Pathway] = []
    failures: list[Failure] = []
    for pathway in pathways:
        if not pathway.needs_selection:
            fields = {
                "program": program.title,
                "way": untrusted(" > ".join(step.name for step in pathway.steps)),
                "kind": pathway.end_kind.replace("_", " "),
            }
            seed = int(content_id("selection", pathway.pathway_id), 16) % 2**31
            sampling = Sampling(seed=seed, max_tokens=_MAX_TOKENS)
            try:
                request = second_opinion.request(ROLE, fields, sampling=sampling)
                answer = await second_opinion.ask(request, SelectionAnswer)
                update = {"needs_selection": answer.needs_selection, "selection_by": second_opinion.version}
                pathway = pathway.model_copy(update=update)
            except ModelFailure as error:
                made_by = second_opinion.prompt.version
                failures.append(_failure(pathway, str(error), error.failure_class, origin, made_by))
        classified.append(pathway)
    return ClassifiedPathways(tuple(classified), tuple(failures))


def _failure(pathway: Pathway, message: str, failure_class: FailureClass, origin: Origin, made_by: str) -> Failure:
    return failure(pathway.pathway_id, message, origin, made_by, failure_class, stage=STAGE)
