"""Which pages there are, which of them work, and which a suite selects."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("miniwob")

from trajmill.schemas.record import Origin
from trajmill.stages.environments.miniwob.environment import import_queries, page_fields
from trajmill.stages.environments.miniwob.pages import known_pages, page_names, suite_pages
from trajmill.stages.environments.miniwob.survey import survey
from trajmill.stages.environments.tasks import splits_of_seeds

_SAMPLE = sorted({*page_names()[::13], "chase-circle", "email-inbox-star-reply", "simon-says", "use-autocomplete"})
"""Some of each kind, and those that were hard to hold still."""


def test_every_page_of_the_wheel_is_in_the_survey_and_suites_hold_working_pages() -> None:
    known = {report.page: report for report in known_pages()}
    assert sorted(known) == page_names()
    assert all(report.works or report.reason for report in known.values())
    everything = suite_pages("all")
    assert set(suite_pages("debug")) < set(suite_pages("basic")) < set(everything)
    assert len(set(suite_pages("basic"))) >= 20
    assert len(everything) == sum(report.works for report in known.values())


@pytest.mark.browser
def test_a_survey_of_some_pages_finds_what_the_file_says() -> None:
    assert asyncio.run(survey(_SAMPLE)) == [report for report in known_pages() if report.page in _SAMPLE]


@pytest.mark.browser
def test_queries_carry_the_fields_of_their_instruction() -> None:
    made = asyncio.run(
        import_queries(
            ("login-user", "email-inbox-nl-turk"),
            splits_of_seeds(1, 0),
            3,
            Origin.model_construct(round=1, run_id="run", code_version="test"),
        )
    )
    login, mail = ([*json.loads(query.start_state)["fields"]] for query in made.queries)
    assert [name for name, _ in login] == ["username", "password"]
    assert all(value in made.queries[0].instruction for _, value in login)
    assert "task" in [name for name, _ in mail]


def test_an_instruction_that_the_wheel_cannot_read_has_no_fields() -> None:
    assert page_fields("login-user", "Something else", None) == ()
    assert page_fields("no-such-page", "Something", None) == ()
    assert page_fields("any", "Something", {"task": "reply", "by": 3}) == (("task", "reply"), ("by", "3"))
