import asyncio
import json
from typing import cast

import pytest

pytest.importorskip("miniwob")

from tests.stages.environments.browser.playing import element, press
from tests.stages.environments.miniwob.survey import survey
from tests.stages.environments.shared_factory import SharedFactory
from trajmill.schemas.actions import PressKeys
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.miniwob.environment import (
    MiniWobEnvironment,
    MiniWobFactory,
    import_queries,
    page_fields,
)
from trajmill.stages.environments.miniwob.pages import known_pages, page_names, suite_pages
from trajmill.stages.environments.tasks import ImportedQueries, splits_of_seeds

pytestmark = pytest.mark.browser
ORIGIN = Origin(round=1, run_id="run", code_version="test")
PLAYED = ("enter-text", "choose-list", "copy-paste")
WITH_FIELDS = ("login-user", "email-inbox-nl-turk")
SURVEYED = ["chase-circle", "use-autocomplete"]
"""Two that were hard to hold still."""
start_browser = MiniWobFactory


@pytest.fixture(scope="module")
def imported() -> ImportedQueries:
    """The queries of all pages that are played here; one page is not there."""
    return asyncio.run(import_queries((*PLAYED, *WITH_FIELDS, "no-such-page"), splits_of_seeds(1, 1), 7, ORIGIN))


def of_page(imported: ImportedQueries, page: str) -> list[Query]:
    return [query for query in imported.queries if query.task == page]


def test_queries_are_split_say_what_the_page_says_and_an_unknown_page_fails_alone(imported: ImportedQueries) -> None:
    made = of_page(imported, "enter-text")
    assert [query.split for query in made] == [Split.TRAIN, Split.HELDOUT_SLOTS]
    assert all(query.instruction.startswith("Enter ") for query in made)
    assert len({query.goal_key() for query in made}) == 2
    assert {query.task for query in imported.queries} == {*PLAYED, *WITH_FIELDS}
    assert [failure.failure_class for failure in imported.failures] == [FailureClass.SETUP]
    queries = [of_page(imported, page)[0] for page in WITH_FIELDS]
    login, mail = ([*json.loads(query.start_state)["fields"]] for query in queries)
    assert [name for name, _ in login] == ["username", "password"]
    assert all(value in queries[0].instruction for _, value in login)
    assert "task" in [name for name, _ in mail]
    # An instruction that the wheel cannot read has no fields.
    assert page_fields("login-user", "Something else", None) == page_fields("no-such-page", "Something", None) == ()


async def test_pages_are_solved_and_rewarded(imported: ImportedQueries, environment: MiniWobEnvironment) -> None:
    query = of_page(imported, "choose-list")[0]
    wanted = query.instruction.removeprefix("Select ").split(" from ")[0]
    first = await environment.reset(query, 0)
    assert await environment.score() == 0.0
    opened = await environment.step(press(element(first, "combo_box")))
    chosen = await environment.step(press(element(opened, "list_item", wanted)))
    assert element(chosen, "combo_box").value == wanted
    await environment.step(press(element(chosen, "button", "Submit")))
    assert await environment.score() == 1.0

    seen = await environment.reset(of_page(imported, "copy-paste")[0], 0)
    await environment.step(press(element(seen, "text_field", "to-copy")))
    await environment.step(PressKeys(keys=("ctrl", "a")))
    await environment.step(PressKeys(keys=("ctrl", "c")))
    await environment.step(press(element(seen, "text_field", "answer")))
    await environment.step(PressKeys(keys=("ctrl", "v")))
    await environment.step(press(element(seen, "button", "Submit")))
    assert await environment.score() == 1.0


def test_every_page_of_the_wheel_is_in_the_survey_and_suites_hold_working_pages() -> None:
    known = {report.page: report for report in known_pages()}
    assert sorted(known) == page_names()
    assert all(report.works or report.reason for report in known.values())
    everything = suite_pages("all")
    assert set(suite_pages("debug")) < set(suite_pages("basic")) < set(everything)
    assert len(set(suite_pages("basic"))) >= 20
    assert len(everything) == sum(report.works for report in known.values())


async def test_a_survey_of_some_pages_finds_what_the_file_says(browser: SharedFactory[MiniWobEnvironment]) -> None:
    reports = [report for report in known_pages() if report.page in SURVEYED]
    assert await survey(SURVEYED, cast(MiniWobFactory, browser.factory)) == reports
