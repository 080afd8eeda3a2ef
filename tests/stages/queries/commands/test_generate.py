"""Commands that a model writes over a real socket: walked in simulated apps and in LibreOffice, or refused."""

import io
import json
from typing import Any

import docx
import openpyxl
import pptx
import pytest

from tests.records import record
from tests.stages.models.fault_server import FaultServer, running_server
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import EndKind, Pathway, PathwayStep
from trajmill.schemas.tables.query import PathStep, Platform, Source
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.spec import Endpoint
from trajmill.stages.queries.base import NewQueries, SourceContext, UnseenApps
from trajmill.stages.queries.commands.source import CommandPlace, CommandSource, document, document_place
from trajmill.stages.queries.generate import make_queries
from trajmill.stages.queries.written import query_prompts

NOTES = CommandPlace(
    app="notes",
    title="Notes",
    source=Source.ATOMIC,
    platform=Platform.PHONE,
    start_state="{}",
    opening=(PathStep(page="launcher.start", operation="tap", target="launcher/notes"),),
    exemplars=("Open the options of the notes",),
)
SHOPPING = {"operation": "tap", "target": "notes.home/shopping"}
SHOWN = [{"id": "notes.shopping/title"}]


def command(instruction: str, *steps: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"instruction": instruction, "steps": list(steps), "shows": SHOWN, **more}


async def asked_of(
    server: FaultServer, place: CommandPlace, environment: EnvironmentSpec, origin: Origin
) -> NewQueries:
    model = Endpoint(OpenAiSpec(urls=(server.url,), model="tiny"))
    source = CommandSource((place,), 1, model, query_prompts().commands)
    return await make_queries([source], SourceContext(environment, UnseenApps(), 0, origin))


async def answered(
    command: dict[str, Any] | str, place: CommandPlace, origin: Origin
) -> tuple[NewQueries, FaultServer]:
    text = command if isinstance(command, str) else json.dumps({"commands": [command]})
    with running_server(writes=lambda body: text) as server:
        return await asked_of(server, place, SimulatedSpec(), origin), server


@pytest.mark.slow
async def test_a_command_is_written_from_a_screenshot_and_walked(origin: Origin) -> None:
    made, server = await answered(command("Show the shopping list", SHOPPING), NOTES, origin)
    [query] = made.queries
    assert (query.instruction, query.source, query.validation) == ("Show the shopping list.", Source.ATOMIC, "passed")
    assert [step.operation for step in query.path] == ["tap", "tap", "finish"]
    [request] = server.received
    assert len(request.pictures) == 1 and len(made.model_calls) == 1
    text = json.dumps(request.body)
    assert "notes.home/shopping" in text and "Open the options of the notes" in text
    assert query.made_by == "writer_commands-1@tiny"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (command("Run a program now", {"operation": "run", "text": "rm -rf /"}), "'run' is no operation"),
        (command("Press the red one", {"operation": "tap", "target": "red"}), "'red' is not on the screen"),
        (command("Leave the program", {"operation": "key", "text": "ctrl+q"}), "the keys 'ctrl+q' are not pressed"),
        (command("Throw it away", {"operation": "tap", "target": "button:Delete"}), "'button:Delete' is never pressed"),
        (command("Open the options of the notes", SHOPPING), 'the same words as "Open the options of the notes"'),
        (command("Show the shopping list", SHOPPING, shows=[]), "nothing tells when it is done"),
        (command("Use the way", SHOPPING, pathway=3), "there is no pathway 3"),
        (command("Show the notes", SHOPPING, shows=[{"id": "notes.home/title"}]), "it is done before it begins"),
        ("I am sorry", "Notes: writer: no valid answer in 3 tries"),
    ],
)
async def test_what_cannot_be_done_has_a_reason(written: dict[str, Any] | str, reason: str, origin: Origin) -> None:
    made, _ = await answered(written, NOTES, origin)
    assert made.queries == () and reason in made.failures[0].message


@pytest.mark.slow
async def test_a_command_takes_a_pathway_and_ends_at_what_it_shows(origin: Origin) -> None:
    target, box = "notes.home/shopping", Box(0, 0, 9, 9)
    step = PathwayStep(role="button", name="Shopping list", target=target, bounds=box, screen_id="s")
    way = record(Pathway, steps=(step,), end_kind=EndKind.PAGE, shows=())
    place = NOTES._replace(source=Source.PATHWAY, pathways=(way,))
    made, server = await answered(command("Show what is to be bought", pathway=0), place, origin)
    assert [query.source for query in made.queries] == [Source.PATHWAY]
    assert '0. \\"Shopping list\\"' in json.dumps(server.received[0].body)


def test_documents_hold_what_can_be_worked_on_and_are_the_same_again() -> None:
    text = docx.Document(io.BytesIO(document("docx", 3)))
    sheet = openpyxl.load_workbook(io.BytesIO(document("xlsx", 3))).worksheets[0]
    slides = pptx.Presentation(io.BytesIO(document("pptx", 3))).slides
    assert len(text.paragraphs) == 6 and sheet["A1"].value == "Item" and isinstance(sheet["B2"].value, int)
    assert [bool(slide.shapes.title.text) for slide in slides] == [True, True]
    assert document("xlsx", 3) == document("xlsx", 3) != document("xlsx", 4)


@pytest.mark.slow
@pytest.mark.desktop
async def test_a_command_for_a_text_is_walked_in_libreoffice(origin: Origin) -> None:
    line = docx.Document(io.BytesIO(document("docx", 0))).paragraphs[1].text
    first = "soffice/text_field"
    written = command(
        "Add the word today to the end of the first line",
        {"operation": "tap", "target": first},
        {"operation": "key", "text": "end"},
        {"operation": "type", "text": " today"},
        shows=[{"target": first, "value": f"{line} today"}],
    )
    with running_server(writes=lambda _: json.dumps({"commands": [written]})) as server:
        made = await asked_of(server, document_place("docx", 0), DesktopSpec(), origin)
    assert [failure.message for failure in made.failures] == []
    assert {query.apps for query in made.queries} == {("libreoffice-writer",)}
