"""Queries of commands that a vision-language model writes for what a screen shows (GUI-Owl 6.2, computers)."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import cache
from importlib.resources import files
from random import Random
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import Field

from trajmill.schemas.errors import BadInputError, FailureClass, StageError
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Record, content_id, seed_of
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.query import PathStep, Platform, Source
from trajmill.stages.critics.model.marking import untrusted
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.screen_goal import ScreenGoal, Showing, holds_on, targets
from trajmill.stages.environments.tasks import bare_query
from trajmill.stages.graphs.explore.deny_list import DenyList, packaged_deny_list
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling
from trajmill.stages.models.spec import Endpoint
from trajmill.stages.overlap import KnownTexts
from trajmill.stages.queries.atomic.source import HOME, packaged_objects, run
from trajmill.stages.queries.base import Offer, QueryPlan, SourceContext, failure
from trajmill.stages.queries.pathways.programs import PathwayProgram, plain_name
from trajmill.stages.queries.pathways.source import is_askable, pressed_steps
from trajmill.stages.queries.spec import DocumentKind
from trajmill.stages.queries.walk import FINISH, close_quietly, follow
from trajmill.stages.queries.written import BATCH, ROLE, TEMPERATURE, Wording, WrittenGoal, bullets, collect, offer_of

_SPARE_REQUESTS = 1
"""Further requests for a place, to replace refused commands."""
_MOST_ELEMENTS = 120
_MOST_PATHWAYS = 40
_LONGEST = 120
_MAX_TOKENS = 3072
_OPERATIONS = frozenset({"tap", "double_tap", "right_tap", "type", "replace", "key", "drag", "select", "scroll"})
_NEEDS_TARGET = _OPERATIONS - {"type", "replace", "key"}
_NAMED_KEYS = "enter|tab|escape|space|backspace|delete|home|end|up|down|left|right|f[1-9]|f1[0-2]"
_KEYS = re.compile(rf"(?:(?:ctrl|shift|alt)\+)*(?:[a-z0-9]|{_NAMED_KEYS})")
_DENIED_KEYS = re.compile(r"alt\+f4|ctrl\+(?:shift\+)?(?:q|w|p|o|n)|ctrl\+alt\+.*|alt\+(?:tab|space)")
"""They close, print, or go to another file or window."""
_ROWS = 5
_DATE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_SOME_DATE = b"2026-01-01T00:00:00Z"
_CORE = "docProps/core.xml"


class CommandPlace(NamedTuple):
    """A program in a start state, with an object that can be worked on."""

    app: str
    title: str
    source: Source
    """`atomic`, or `pathway` where commands take a pathway."""
    platform: Platform
    start_state: str
    opening: tuple[PathStep, ...] = ()
    """Operations after a reset; afterwards the screen is as the model sees it, e.g. with a text selected."""
    exemplars: tuple[str, ...] = ()
    pathways: tuple[Pathway, ...] = ()
    """Ways through the program that commands can take first, e.g. to a dialog for the selected text."""

    @property
    def id(self) -> str:
        return content_id("place", self.app, self.source, self.start_state)


def document_place(kind: DocumentKind, seed: int) -> CommandPlace:
    app, title, ready = {
        "docx": ("writer", "the word processor", ("soffice/text_field",)),
        "xlsx": ("calc", "the spreadsheet", ("soffice/cell:A1",)),
        "pptx": ("impress", "the presentation program", ()),
    }[kind]
    path, page = f"{HOME}/Documents/paper.{kind}", f"libreoffice-{app}.start"
    content = base64.b64encode(document(kind, seed)).decode()
    # The content is passed as an argument: the shell never runs it.
    made = run("execute", "sh", "-c", 'printf %s "$2" | base64 -d > "$1"', "sh", path, content)
    config = [made, run("launch", "soffice", f"--{app}", "--nologo", "--norestore", path)]
    return CommandPlace(
        app=f"libreoffice-{app}",
        title=title,
        source=Source.ATOMIC,
        platform=Platform.DESKTOP,
        start_state=json.dumps({"config": config}, sort_keys=True),
        opening=tuple(PathStep(page=page, operation="scroll", target=target) for target in ready),
        exemplars=_exemplars()[kind],
    )


def document(kind: DocumentKind, seed: int) -> bytes:
    """Return a document, equal for equal seeds; raises BadInputError if the package that makes it is missing."""
    stream, settled = io.BytesIO(), io.BytesIO()
    objects, rng = packaged_objects(), Random(f"{kind} {seed}")
    made: Any
    try:
        if kind == "docx":
            import docx

            made = docx.Document()
            made.add_heading(rng.choice(objects.folders), level=1)
            for line in rng.sample(objects.lines, _ROWS):
                made.add_paragraph(line)
        elif kind == "xlsx":
            import openpyxl

            made = openpyxl.Workbook()
            made.active.append(list(objects.headings))
            for name in rng.sample(objects.goods, _ROWS):
                made.active.append([name, rng.randint(2, 90), rng.randint(1, 52)])
        else:
            import pptx

            made = pptx.Presentation()
            for title in rng.sample(objects.folders, 2):
                slide = made.slides.add_slide(made.slide_layouts[1])
                slide.shapes.title.text = title
                slide.placeholders[1].text = "\n".join(rng.sample(objects.lines, 3))
    except ImportError as error:
        text = f"{error.name} is not installed, which makes {kind} files: pip install trajmill[desktop]"
        raise BadInputError(text) from None
    made.save(stream)
    # The same archive without the time at which it was made.
    with zipfile.ZipFile(stream) as archive, zipfile.ZipFile(settled, "w", zipfile.ZIP_DEFLATED) as kept:
        for name in archive.namelist():
            part = archive.read(name)
            part = _DATE.sub(_SOME_DATE, part) if name == _CORE else part
            kept.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return settled.getvalue()


def pathway_places(
    programs: Sequence[PathwayProgram], pathways: Sequence[Pathway], deny_list: DenyList
) -> tuple[CommandPlace, ...]:
    """Return a place for each program in which something can be selected, with its pathways that need a selection."""
    places: list[CommandPlace] = []
    for program in (each for each in programs if each.selecting):
        own = [each for each in pathways if each.program == program.name and each.needs_selection]
        known = sorted((each for each in own if is_askable(each, deny_list)), key=lambda each: len(each.steps))
        if known:
            place = CommandPlace(
                app=program.name,
                title=program.title,
                source=Source.PATHWAY,
                platform=program.platform,
                start_state=program.start_state,
                opening=(*program.opening, *program.selecting),
                exemplars=_exemplars()["pathway"],
                pathways=tuple(known),
            )
            places.append(place)
    return tuple(places)


@cache
def _exemplars() -> dict[str, tuple[str, ...]]:
    by_kind = yaml.safe_load(files(__package__).joinpath("exemplars.yaml").read_text())
    return {kind: tuple(texts) for kind, texts in by_kind.items()}


class WrittenStep(Record):
    operation: str = Field(max_length=20)
    target: str = Field("", max_length=300)
    text: str = Field("", max_length=300)


class WrittenCommand(Wording):
    """One command, as the model wrote it; untrusted."""

    steps: Annotated[tuple[WrittenStep, ...], Field(max_length=15)] = ()
    pathway: int | None = None
    """Number of the pathway that is taken first."""
    shows: Annotated[tuple[Showing, ...], Field(max_length=8)] = ()
    """What the screen shows when it is done, and not before."""
    lacks: Annotated[tuple[Showing, ...], Field(max_length=8)] = ()


class CommandAnswer(Record):
    commands: Annotated[tuple[WrittenCommand, ...], Field(min_length=1, max_length=2 * BATCH)]


class CommandSource(NamedTuple):
    places: Sequence[CommandPlace]
    wanted: int
    model: Endpoint
    prompt: Prompt

    async def candidates(self, context: SourceContext) -> Offer:
        calls: list[ModelCall] = []
        opened, free = self.model.open(context.origin, calls.append), asyncio.Semaphore(context.instances)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(opened.close)
            factories: dict[Platform, EnvironmentFactory] = {}
            for platform in dict.fromkeys(place.platform for place in self.places):
                factories[platform] = context.environment.factory(platform)
                stack.push_async_callback(factories[platform].close)
            asked = (self._collect(place, opened, factories[place.platform], free, context) for place in self.places)
            made = await asyncio.gather(*asked)
        goals = [goal for of_place, _ in made for goal in of_place]
        return offer_of(goals, [each for _, refused in made for each in refused], calls)

    async def _collect(
        self,
        place: CommandPlace,
        model: ChatModel,
        factory: EnvironmentFactory,
        free: asyncio.Semaphore,
        context: SourceContext,
    ) -> tuple[list[WrittenGoal], list[Failure]]:
        prompted, deny_list, failures = PromptedModel(model, self.prompt), packaged_deny_list(), list[Failure]()

        def refuse(text: str, reason: str, failure_class: FailureClass) -> None:
            input_id = content_id("command", place.id, text) if text else place.id
            message = f"{place.source if text else place.title}: {reason}"
            failures.append(failure(input_id, message, context.origin, prompted.version, failure_class))

        async def ask(texts: list[str], count: int, number: int) -> tuple[WrittenCommand, ...]:
            fields = _fields(place, screen, texts, count)
            request = int(content_id("commands", context.seed, number), 16)
            seed = seed_of("commands", place.id, request)
            sampling = Sampling(TEMPERATURE, seed=seed, max_tokens=_MAX_TOKENS)
            asked = prompted.request(ROLE, fields, ("\nThe screen:\n", screen), sampling)
            return (await prompted.ask(asked, CommandAnswer)).commands

        async with free:
            environment: Environment | None = None
            try:
                environment = await factory()
                start = bare_query(place.platform, "start", place.start_state, place.source, context.origin, "screen")
                shown = await environment.reset(start, 0)
                screen = await follow(place.opening, place.platform, shown, environment.step)
            except StageError as error:
                refuse("", str(error), error.failure_class)
                return [], failures
            finally:
                await close_quietly(environment)

            def why_not(command: WrittenCommand) -> str:
                return next(_reasons(command, place, screen, deny_list), "")

            known = KnownTexts(place.exemplars)
            kept = await collect(self.wanted, _SPARE_REQUESTS, known, ask, refuse, why_not)
        return [_goal(place, text, command, prompted.version) for text, command in kept.items()], failures


def _fields(place: CommandPlace, screen: Observation, known: Sequence[str], count: int) -> dict[str, str]:
    """The fields of the prompt that asks for `count` commands."""
    elements: list[str] = []
    for name, element in list(targets(screen.elements or ()).items())[:_MOST_ELEMENTS]:
        shown = f", text {untrusted(element.text, _LONGEST)}" if element.text not in name else ""
        value = f", value {untrusted(element.value, _LONGEST)}" if element.value else ""
        elements.append(f"- {untrusted(name, _LONGEST)}{shown}{value}")
    ways = place.pathways[:_MOST_PATHWAYS]
    pathways = (" > ".join(plain_name(step.name) for step in each.steps) for each in ways)
    numbered = (f"{number}. {untrusted(text, _LONGEST)}" for number, text in enumerate(pathways))
    return {
        "app": untrusted(place.title, _LONGEST),
        "platform": place.platform.value,
        "elements": "\n".join(elements) or "(none)",
        "pathways": "\n".join(numbered) or "(none)",
        "exemplars": bullets(place.exemplars, _LONGEST),
        "known": bullets(known, _LONGEST),
        "count": str(count),
    }


def _goal(place: CommandPlace, text: str, command: WrittenCommand, version: str) -> WrittenGoal:
    page = f"{place.app}.start"
    pathway = place.pathways[command.pathway] if command.pathway is not None else None
    own = (PathStep(page=page, **step.model_dump()) for step in command.steps)
    pressed = pressed_steps(pathway) if pathway else ()
    taps = (PathStep(page=page, operation="tap", target=step.target) for step in pressed)
    wanted = ScreenGoal(showing=command.shows, lacking=command.lacks)
    if pathway and not (command.shows or command.lacks):
        wanted = ScreenGoal(showing=tuple(Showing(**each.model_dump()) for each in pathway.shows))
    plan = QueryPlan(
        platform=place.platform,
        apps=(place.app,),
        source=place.source,
        start_state=place.start_state,
        goal=json.dumps(wanted.model_dump(exclude_defaults=True), ensure_ascii=False),
        pages={page: f"What {place.title} shows at the start."},
        path=(*place.opening, *taps, *own, FINISH.model_copy(update={"page": page})),
    )
    task = f"{place.app}.written-{content_id(place.start_state, text.casefold())[:12]}"
    return WrittenGoal(task, text, version, plan)


def _reasons(command: WrittenCommand, place: CommandPlace, screen: Observation, deny_list: DenyList) -> Iterator[str]:
    if command.pathway is not None and not 0 <= command.pathway < len(place.pathways):
        yield f"there is no pathway {command.pathway}"
    if command.pathway is None and not command.steps:
        yield "it has no step"
    for step in command.steps:
        if step.operation not in _OPERATIONS:
            yield f"{step.operation!r} is no operation"
        elif step.operation in _NEEDS_TARGET and not step.target:
            yield f"{step.operation} needs a target"
        elif step.operation == "key" and (not _KEYS.fullmatch(step.text) or _DENIED_KEYS.fullmatch(step.text)):
            yield f"the keys {step.text!r} are not pressed"
        elif step.operation in ("type", "replace") and not step.text.strip():
            yield f"{step.operation} needs a text"
        if not all(letter.isprintable() or letter == "\n" for letter in f"{step.target}{step.text}"):
            yield "a step has characters that nobody types"
        if deny_list.search(step.target):
            yield f"{step.target!r} is never pressed"
    if command.pathway is None:
        first = next((step.target for step in command.steps if step.target), "")
        scrolls = bool(command.steps) and command.steps[0].operation == "scroll"
        if first and first not in targets(screen.elements or ()) and not scrolls:
            yield f"{first!r} is not on the screen"
        if not (command.shows or command.lacks):
            yield "nothing tells when it is done"
    wanted = ScreenGoal(showing=command.shows, lacking=command.lacks)
    if (command.shows or command.lacks) and holds_on(screen, wanted):
        yield "it is done before it begins"
