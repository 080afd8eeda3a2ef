"""The deep search: a depth-first walk over the pressable elements of a running program (paper 6.2, computers)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, FailureClass, ModelFailure
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Origin, Record, seed_of
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import EndKind, Evidence, Pathway, PathwayStep
from trajmill.stages.critics.model.marking import untrusted
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.graphs.explore.deny_list import DenyList, packaged_deny_list
from trajmill.stages.graphs.explore.plan import promises_dialog
from trajmill.stages.graphs.explore.walker import OutOfBoundsError, WayLost
from trajmill.stages.models.prompts import PromptedModel, Sampling
from trajmill.stages.queries.base import failure
from trajmill.stages.queries.pathways.programs import (
    STAGE,
    ElementKey,
    Navigator,
    PathwayProgram,
    ProgramEnded,
    ProgramState,
    WalkBounds,
    WalkResult,
    plain_name,
    start_query,
    targets_of,
)
from trajmill.stages.queries.written import ROLE

MADE_BY = "deep-search-1"
TREE = "tree"
_OPENS_ALWAYS = frozenset({"menu", "tab"})
_COMMANDS = frozenset({"menu_item", "button", "link"})
_ENTRIES = frozenset({"menu", "menu_item"})
_WAITS_FOR_DIALOG = 4
"""Most waits for a dialog: a large program closes the menu some time before it shows the dialog."""
_MAX_TOKENS = 300
_TITLE_MARKS = "*• "
"""Characters that title bars add to the name of a changed document."""
_MOST_EVIDENCE = 4
_LARGEST_SHARE_KEPT = 0.5
"""Largest share of the old elements that a new page may still show."""


async def collect_pathways(
    factory: EnvironmentFactory,
    program: PathwayProgram,
    bounds: WalkBounds,
    origin: Origin,
    second_opinion: PromptedModel | None = None,
) -> WalkResult:
    walked = await deep_search(factory, program, bounds, packaged_deny_list(), origin)
    walked = await needs_by_tree(factory, program, walked, bounds, origin)
    return await needs_by_model(second_opinion, program, walked, origin) if second_opinion is not None else walked


async def deep_search(
    factory: EnvironmentFactory, program: PathwayProgram, bounds: WalkBounds, deny_list: DenyList, origin: Origin
) -> WalkResult:
    """Find the pathways of a program: press what opens something, and go back by Escape or by reset and replay.

    A menu entry on the deny list is recorded and never pressed. What fails, ends or hangs becomes a failure.
    """
    navigator = Navigator(factory, start_query(program, origin), program.opening, bounds)
    walk = _Walk(navigator, program, bounds, deny_list, origin)
    try:
        state = await navigator.reset()
        walk.app = state.observation.app
        walk.visited.add(state.state_id)
        await walk.expand(_Node((), state, frozenset(), frozenset()))
        if not walk.found and not walk.failures:
            walk.fail("its tree shows nothing that opens a menu, a dialog or a tab", FailureClass.ENVIRONMENT)
    except OutOfBoundsError:
        walk.fail("the walk ended early: its steps or seconds were used up", FailureClass.LIMIT)
    except EnvironmentFailure as error:
        walk.fail(f"the walk ended early: {error}", error.failure_class)
    finally:
        await navigator.give_up()
    return WalkResult(tuple(walk.found.values()), tuple(walk.failures), walk.screens, navigator.tally)


class PressResult(NamedTuple):
    kind: EndKind
    name: str
    shows: tuple[Evidence, ...]


def press_result(pressed: ElementKey, before: ProgramState, after: ProgramState) -> PressResult | None:
    name = plain_name(pressed.text)
    new = [key for key in after.elements if key not in before.elements]
    titled = (Evidence(role="heading", text=after.title, state="title"),)
    dialog = next((key for key in new if key.role == "dialog" and key.text), None)
    if dialog is not None:
        return PressResult(EndKind.DIALOG, dialog.text, _evidence([dialog]))
    # Another title in a title bar at another place is a new window.
    if after.title_top != before.title_top and after.title and after.title != before.title:
        return PressResult(EndKind.DIALOG, after.title, titled)
    element = after.elements.get(pressed)
    if pressed.role == "tab" and element is not None and "selected" in element.states:
        return PressResult(EndKind.TAB, name, (Evidence(role="tab", text=pressed.text, state="selected"),))
    choices = [key for key in new if key.role in _ENTRIES and key.text]
    if choices:
        return PressResult(EndKind.MENU, name, _evidence(choices))
    if after.title and after.title.strip(_TITLE_MARKS) != before.title.strip(_TITLE_MARKS):
        return PressResult(EndKind.PAGE, after.title, titled)
    # A new page without a title: most of the old elements are gone, and there are new ones.
    kept = [key for key in before.elements if key in after.elements]
    named = [key for key in new if key.text]
    if not named or len(kept) > len(before.elements) * _LARGEST_SHARE_KEPT:
        return None
    headings = [key for key in named if key.role == "heading"]
    return PressResult(EndKind.PAGE, headings[0].text if headings else name, _evidence(headings or named))


def _evidence(keys: Sequence[ElementKey]) -> tuple[Evidence, ...]:
    return tuple(Evidence(role=key.role, text=key.text, state="") for key in keys[:_MOST_EVIDENCE])


class _Node(NamedTuple):
    way: tuple[PathwayStep, ...]
    state: ProgramState
    known: frozenset[ElementKey]
    """Elements of the states before; they are pressed there."""
    before: frozenset[str]


@dataclass
class _Walk:
    navigator: Navigator
    program: PathwayProgram
    bounds: WalkBounds
    deny_list: DenyList
    origin: Origin
    found: dict[tuple[str, ...], Pathway] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    screens: dict[str, Observation] = field(default_factory=dict)
    visited: set[str] = field(default_factory=set)
    broken: int = 0
    app: str = ""

    def fail(self, message: str, failure_class: FailureClass) -> None:
        self.failures.append(failure(self.program.name, message, self.origin, MADE_BY, failure_class, stage=STAGE))

    async def expand(self, node: _Node) -> None:
        new = {key: element for key, element in node.state.elements.items() if key not in node.known and key.text}
        for key, element in new.items():
            if key.role in _ENTRIES and node.way:
                entry = PressResult(EndKind.MENU_ITEM, plain_name(key.text), _evidence([key]))
                self._record((*node.way, self._step(key, node.state)), entry, element, pressed=False)
        if len(node.way) >= self.bounds.depth:
            return
        for key in [key for key, element in new.items() if self._is_pressed(key, element)][: self.bounds.breadth]:
            opened = await self._press(node, key)
            if opened is not None and opened.state.state_id not in self.visited:
                self.visited.add(opened.state.state_id)
                await self.expand(opened)

    def _is_pressed(self, key: ElementKey, element: UIElement) -> bool:
        is_command = key.role in _COMMANDS and (self.program.presses_commands or promises_dialog(key.text))
        in_front = key.role == "tab" and "selected" in element.states
        opens = (key.role in _OPENS_ALWAYS or is_command) and not in_front
        return opens and element.clickable and not self.deny_list.search(key.text)

    async def _press(self, node: _Node, key: ElementKey) -> _Node | None:
        """Press an element of a node; None if it opened nothing new or the branch broke, which is recorded."""
        navigator = self.navigator
        try:
            before = await navigator.go_to(node.way)
            if key not in before.elements:
                # Once more, from a reset.
                navigator.forget()
                before = await navigator.go_to(node.way)
            if key not in before.elements:
                raise WayLost(f"{key.target} is not there again")
            way = (*node.way, self._step(key, before))
            after = await navigator.press(way)
            opened = press_result(key, before, after)
            for _ in range(_WAITS_FOR_DIALOG):
                if opened is not None or not promises_dialog(key.text):
                    break
                after = await navigator.wait(way)
                opened = press_result(key, before, after)
            if not after.alive:
                raise ProgramEnded("the program has ended, or shows nothing")
            if self.app and not after.observation.app:
                raise ProgramEnded("the program is no longer in front")
        except EnvironmentFailure as error:
            self.fail(f"{' > '.join([*(step.name for step in node.way), key.text])}: {error}", error.failure_class)
            if isinstance(error, ProgramEnded):
                navigator.forget()
            elif not isinstance(error, WayLost):
                await navigator.give_up()
            self.broken += not isinstance(error, WayLost)
            if self.broken > self.bounds.failures:
                text = f"more than {self.bounds.failures} branches broke"
                raise EnvironmentFailure(text, error.failure_class) from None
            return None
        states = node.before | {node.state.state_id}
        if opened is None or after.state_id in states:
            # An entry that opened nothing is a command or a switch.
            if (known := self.found.get(targets_of(way))) is not None:
                self.found[targets_of(way)] = known.model_copy(update={"pressed": True})
            return None
        self._record(way, opened, before.elements[key], pressed=True)
        return _Node(way, after, node.known | frozenset(node.state.elements), states)

    def _record(self, way: tuple[PathwayStep, ...], end: PressResult, element: UIElement, pressed: bool) -> None:
        if targets_of(way) in self.found and not pressed:
            return
        self.found[targets_of(way)] = Pathway(
            pathway_id=Pathway.make_id(self.program.name, self.program.start_state, targets_of(way)),
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


async def needs_by_tree(
    factory: EnvironmentFactory, program: PathwayProgram, walked: WalkResult, bounds: WalkBounds, origin: Origin
) -> WalkResult:
    """Find which pathways need a selection: go to their disabled ends again, with something selected."""
    if not program.selecting:
        return walked
    navigator = Navigator(factory, start_query(program, origin), (*program.opening, *program.selecting), bounds)
    # Two screens may have shown the same menu, hence the targets as keys.
    by_parent: dict[tuple[str, ...], list[Pathway]] = {}
    for pathway in walked.pathways:
        if not pathway.enabled:
            by_parent.setdefault(targets_of(pathway.steps[:-1]), []).append(pathway)
    needs = {each.pathway_id: False for each in walked.pathways if each.enabled}
    failures = list(walked.failures)

    def fail(pathway: Pathway, message: str, failure_class: FailureClass) -> None:
        failures.append(failure(pathway.pathway_id, message, origin, TREE, failure_class, stage=STAGE))

    try:
        for ends in by_parent.values():
            state = None
            for last in (False, True):
                try:
                    state = await navigator.go_to(ends[0].steps[:-1])
                    break
                except EnvironmentFailure as error:
                    await navigator.give_up()
                    if last:
                        fail(ends[0], str(error), error.failure_class)
            usable = {key.target for key, element in state.elements.items() if element.clickable} if state else set()
            needs |= {each.pathway_id: each.steps[-1].target in usable for each in ends if state}
    except OutOfBoundsError:
        message = "the walk with a selection ended early: its steps or seconds were used up"
        fail(next(iter(by_parent.values()))[0], message, FailureClass.LIMIT)
    finally:
        await navigator.give_up()
    told = {id: {"needs_selection": needed, "selection_by": TREE} for id, needed in needs.items()}
    pathways = tuple(each.model_copy(update=told.get(each.pathway_id)) for each in walked.pathways)
    return walked._replace(pathways=pathways, failures=tuple(failures))


class SelectionAnswer(Record):
    why: str
    needs_selection: bool


async def needs_by_model(
    second_opinion: PromptedModel, program: PathwayProgram, walked: WalkResult, origin: Origin
) -> WalkResult:
    """Ask a model about the pathways for which the tree shows no need; one without an answer stays, with a failure."""
    classified: list[Pathway] = []
    failures = list(walked.failures)
    for pathway in walked.pathways:
        if not pathway.needs_selection:
            fields = {
                "program": program.title,
                "way": untrusted(" > ".join(step.name for step in pathway.steps)),
                "kind": pathway.end_kind.replace("_", " "),
            }
            seed = seed_of("selection", pathway.pathway_id)
            request = second_opinion.request(ROLE, fields, sampling=Sampling(seed=seed, max_tokens=_MAX_TOKENS))
            try:
                needed = (await second_opinion.ask(request, SelectionAnswer)).needs_selection
                update = {"needs_selection": needed, "selection_by": second_opinion.version}
                pathway = pathway.model_copy(update=update)
            except ModelFailure as error:
                version, of = second_opinion.prompt.version, error.failure_class
                failures.append(failure(pathway.pathway_id, str(error), origin, version, of, stage=STAGE))
        classified.append(pathway)
    return walked._replace(pathways=tuple(classified), failures=tuple(failures))
