"""Places that commands are written for: new documents, and programs in which something is selected (GUI-Owl 6.2)."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple

import yaml

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.pathway import Evidence, Pathway
from trajmill.schemas.tables.query import PathStep, Platform, Source
from trajmill.stages.graphs.explore.deny_list import DenyList
from trajmill.stages.queries.atomic.source import HOME, Objects, launch, packaged_objects
from trajmill.stages.queries.pathways.navigator import plain_name
from trajmill.stages.queries.pathways.programs import PathwayProgram
from trajmill.stages.queries.pathways.source import is_askable, pressed_steps
from trajmill.stages.queries.spec import DocumentKind

_ROWS = 5
_DATE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_SOME_DATE = b"2026-01-01T00:00:00Z"
_CORE = "docProps/core.xml"


class KnownPathway(NamedTuple):
    """A way through the program that commands can take first, e.g. to a dialog for the selected text."""

    names: tuple[str, ...]
    steps: tuple[PathStep, ...]
    shows: tuple[Evidence, ...]


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
    pathways: tuple[KnownPathway, ...] = ()

    @property
    def id(self) -> str:
        return content_id("place", self.app, self.source, self.start_state)


class _Program(NamedTuple):
    app: str
    title: str
    flag: str
    ready: tuple[str, ...]


_PROGRAMS: Mapping[DocumentKind, _Program] = {
    "docx": _Program("libreoffice-writer", "the word processor", "--writer", ("soffice/text_field",)),
    "xlsx": _Program("libreoffice-calc", "the spreadsheet", "--calc", ("soffice/cell:A1",)),
    "pptx": _Program("libreoffice-impress", "the presentation program", "--impress", ()),
}


def document_place(kind: DocumentKind, seed: int) -> CommandPlace:
    """Return a new document that is open in its program; the seed decides on its content. Raises as `document`."""
    program, path = _PROGRAMS[kind], f"{HOME}/Documents/paper.{kind}"
    content = base64.b64encode(document(kind, seed)).decode()
    # The content is passed as an argument: the shell never runs it.
    write = ["sh", "-c", 'printf %s "$2" | base64 -d > "$1"', "sh", path, content]
    config = [
        {"type": "execute", "parameters": {"command": write}},
        launch("soffice", program.flag, "--nologo", "--norestore", path),
    ]
    page = f"{program.app}.start"
    return CommandPlace(
        app=program.app,
        title=program.title,
        source=Source.ATOMIC,
        platform=Platform.DESKTOP,
        start_state=json.dumps({"config": config}, sort_keys=True),
        opening=tuple(PathStep(page=page, operation="scroll", target=target) for target in program.ready),
        exemplars=_exemplars()[kind],
    )


def document(kind: DocumentKind, seed: int) -> bytes:
    """Return a document, equal for equal seeds; raises BadInputError if the package that makes it is missing."""
    make: Mapping[DocumentKind, Callable[[Objects, Random], Any]] = {"docx": _text, "xlsx": _table, "pptx": _slides}
    stream, settled = io.BytesIO(), io.BytesIO()
    try:
        make[kind](packaged_objects(), Random(f"{kind} {seed}")).save(stream)
    except ImportError as error:
        text = f"{error.name} is not installed, which makes {kind} files: pip install trajmill[desktop]"
        raise BadInputError(text) from None
    # The same archive without the time at which it was made.
    with zipfile.ZipFile(stream) as made, zipfile.ZipFile(settled, "w", zipfile.ZIP_DEFLATED) as kept:
        for name in made.namelist():
            part = made.read(name)
            part = _DATE.sub(_SOME_DATE, part) if name == _CORE else part
            kept.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return settled.getvalue()


def _text(objects: Objects, rng: Random) -> Any:
    import docx

    made = docx.Document()
    made.add_heading(rng.choice(objects.folders), level=1)
    for line in rng.sample(objects.lines, _ROWS):
        made.add_paragraph(line)
    return made


def _table(objects: Objects, rng: Random) -> Any:
    import openpyxl

    made = openpyxl.Workbook()
    sheet: Any = made.active
    sheet.append(list(objects.headings))
    for name in rng.sample(objects.goods, _ROWS):
        sheet.append([name, rng.randint(2, 90), rng.randint(1, 52)])
    return made


def _slides(objects: Objects, rng: Random) -> Any:
    import pptx

    made = pptx.Presentation()
    for title in rng.sample(objects.folders, 2):
        slide: Any = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = "\n".join(rng.sample(objects.lines, 3))
    return made


def pathway_places(
    programs: Sequence[PathwayProgram], pathways: Sequence[Pathway], deny_list: DenyList
) -> tuple[CommandPlace, ...]:
    """Return a place for each program in which something can be selected, with its pathways that need a selection."""
    places: list[CommandPlace] = []
    for program in (each for each in programs if each.selecting):
        own = [each for each in pathways if each.program == program.name and each.needs_selection]
        needing = sorted((each for each in own if is_askable(each, deny_list)), key=lambda each: len(each.steps))
        if needing:
            places.append(
                CommandPlace(
                    app=program.name,
                    title=program.title,
                    source=Source.PATHWAY,
                    platform=program.platform,
                    start_state=program.start_state,
                    opening=(*program.opening, *program.selecting),
                    exemplars=_exemplars()["pathway"],
                    pathways=tuple(_known(each) for each in needing),
                )
            )
    return tuple(places)


def _known(pathway: Pathway) -> KnownPathway:
    page = f"{pathway.program}.start"
    return KnownPathway(
        tuple(plain_name(step.name) for step in pathway.steps),
        tuple(PathStep(page=page, operation="tap", target=step.target) for step in pressed_steps(pathway)),
        pathway.shows,
    )


@cache
def _exemplars() -> dict[str, tuple[str, ...]]:
    by_kind = yaml.safe_load(files(__package__).joinpath("exemplars.yaml").read_text())
    return {kind: tuple(texts) for kind, texts in by_kind.items()}
