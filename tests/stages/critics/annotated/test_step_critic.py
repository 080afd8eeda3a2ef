"""The step critic against the state of the simulated world: wrong places, ways back, loops, other ways to the goal."""

from __future__ import annotations

import asyncio

import pytest

from tests.stages.environments.simulated.scripted import (
    NO_FAULTS,
    ORIGIN,
    SeenTrees,
    annotated_query,
    scripted_episode,
)
from tests.stages.environments.simulated.worlds import task_of
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.calibration.agreement import calibrate
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.derive.end_to_end import end_to_end_examples
from trajmill.stages.derive.spec import StepDataSpec
from trajmill.stages.derive.step_data import select_steps
from trajmill.stages.environments.kinds import DevicesSpec
from trajmill.stages.environments.simulated.distance import SimulatedDistances
from trajmill.stages.environments.simulated.world import shared_world

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL
WORLD = shared_world(())
ROOF = annotated_query(
    task_of(WORLD, "files.delete"),
    ("files.home", "files.folder", "files.file", "files.delete", "files.deleted"),
    {"file": "roof.odt"},
    "delete the file roof.odt",
)
WAY = ["launcher/files", "files.home/folders/Projects", "files.folder/files/roof.odt", "files.file/edit"]
WAY += ["files.file/delete", "files.delete/delete", "finish"]
SONG = annotated_query(
    task_of(WORLD, "tunes.play"),
    ("tunes.home", "tunes.search", "tunes.song", "tunes.playing"),
    {"song": "Old Fence"},
    "play the song Old Fence",
)
BY_ARTIST = ["tunes.home/artists/Amber Lane", "tunes.artist/songs/Old Fence"]


def judged(query: Query, script: list[str], seen: SeenTrees) -> Episode:
    episode = scripted_episode(WORLD, query, script, seen)
    return asyncio.run(judge_episodes([episode], annotated_judge(), seen, ORIGIN)).episodes[0]


def labels(episode: Episode) -> list[StepLabel]:
    return [verdict.label for verdict in episode.step_verdicts]


def compared(episode: Episode, seen: SeenTrees) -> JudgeQuality:
    measured = SimulatedDistances(WORLD, NO_FAULTS, DevicesSpec())
    return next(each for each in calibrate([episode], seen, measured) if each.level == "step")


@pytest.mark.parametrize(
    ("query", "script", "expected"),
    [
        pytest.param(
            ROOF,
            [WAY[0], "files.home/folders/Documents", "back", *WAY[1:]],
            [GOOD, HARMFUL, GOOD, GOOD, GOOD, GOOD, GOOD, GOOD, GOOD],
            id="a wrong folder and the way back",
        ),
        pytest.param(
            ROOF,
            [*WAY[:2], "home", WAY[0], *WAY[2:]],
            [GOOD, GOOD, HARMFUL, GOOD, GOOD, GOOD, GOOD, GOOD, GOOD],
            id="a loop through the desktop",
        ),
        pytest.param(
            ROOF,
            [WAY[0], "files.home/folders/Documents", "files.folder/files/cv.odt", *WAY[3:]],
            [GOOD, HARMFUL, HARMFUL, NEUTRAL, HARMFUL, HARMFUL, HARMFUL],
            id="another file is deleted",
        ),
        pytest.param(
            SONG,
            ["launcher/tunes", "tunes.home/artists/Night Ferry", "back", *BY_ARTIST, "tunes.song/play", "finish"],
            [GOOD, HARMFUL, GOOD, GOOD, GOOD, GOOD, GOOD],
            id="a way that was not annotated, after a wrong artist",
        ),
    ],
)
def test_steps_are_labelled_by_what_they_do_to_the_goal(
    query: Query, script: list[str], expected: list[StepLabel]
) -> None:
    seen = SeenTrees()
    episode = judged(query, script, seen)
    assert labels(episode) == expected
    quality = compared(episode, seen)
    assert (quality.false_positive, quality.false_negative) == (0, 0)
    assert quality.true_positive == sum(label is GOOD for label in expected[:-1])


def test_what_leads_back_is_learned_and_paired_with_its_error() -> None:
    seen = SeenTrees()
    episode = judged(ROOF, [WAY[0], "files.home/folders/Documents", "back", *WAY[1:]], seen)
    assert episode.trajectory.reward == 1.0
    assert episode.judgement is not None and episode.judgement.correct
    made = end_to_end_examples(episode, seen.size, ORIGIN)
    assert [example.step_index for example in made.examples] == [0, 2, 3, 4, 5, 6, 7, 8]
    assert [(left.step_index, left.reason) for left in made.dropped] == [(1, "harmful")]
    selected = select_steps(episode, StepDataSpec(), seen)
    assert not isinstance(selected, str)
    assert [step.variant for step in selected[:4]] == ["positive", None, "self_correction", "positive"]


def test_steps_are_not_compared_where_the_environment_measures_no_distance() -> None:
    seen = SeenTrees()
    episode = judged(ROOF, WAY, seen)
    assert {each.level for each in calibrate([episode], seen)} == {"trajectory", "text", "multimodal"}
