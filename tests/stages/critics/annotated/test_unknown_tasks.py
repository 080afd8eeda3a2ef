"""The annotated judge decides nothing on tasks whose annotations it does not know, whatever their pages are called."""

from __future__ import annotations

import asyncio

from tests.stages.critics.little_app import ORIGIN, Trees, food_query, right_walk
from tests.stages.queries.samples import made_by, passes
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.query import Platform, Query, Source, Split
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.queries.atomic.source import AtomicSource


def atomic() -> list[Query]:
    counts = {**dict.fromkeys(Split, 0), Split.TRAIN: 1}
    found = list(made_by(AtomicSource(counts, ("libreoffice-calc", "mousepad")), passes, ORIGIN).queries)
    assert len(found) > 3 and all("." in page for query in found for page in query.pages)
    return found


def android() -> Query:
    pages = ("com.android.settings.wifi", "com.android.settings.main")
    seen = {"apps": ("com.android.settings",), "pages": pages, "page_descriptions": ("A page.", "A page.")}
    return own_query(Platform.PHONE, "turn-on-wifi", "Turn Wi-Fi on.", "{}", ORIGIN, "test", **seen)


def unknown() -> list[Query]:
    pathway = food_query(source=Source.PATHWAY)
    nowhere = food_query(pages=(), page_descriptions=(), slots=())
    untold = food_query(page_descriptions=("The dishes.", "", "Where to deliver.", "Confirms the order."))
    return [*atomic(), android(), pathway, nowhere, untold]


def test_their_trajectories_stay_unjudged_and_are_failures() -> None:
    trees = Trees()
    episodes = [
        right_walk(trees).end(query, trajectory_id=f"t{number}", reward=1.0) for number, query in enumerate(unknown())
    ]
    judged = asyncio.run(judge_episodes(episodes, annotated_judge(), trees, ORIGIN))
    assert [episode.judgement for episode in judged.episodes] == [None] * len(episodes)
    assert not any(episode.trajectory_verdicts or episode.step_verdicts for episode in judged.episodes)
    assert [failure.input_id for failure in judged.failures] == [e.trajectory.trajectory_id for e in episodes]
    assert {failure.failure_class for failure in judged.failures} == {FailureClass.JUDGE}
    assert all("not those of an annotated app" in failure.message for failure in judged.failures)
