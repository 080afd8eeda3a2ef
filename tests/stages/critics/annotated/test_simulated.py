import asyncio

import pytest

from tests.stages.critics.little_app import ORIGIN, labels
from tests.stages.critics.phone import queries_of, walk_of
from tests.stages.environments.simulated.scripted import NO_FAULTS, SeenTrees, annotated_query, scripted_episode
from tests.stages.environments.simulated.worlds import task_of
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.query import Query
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.calibration.agreement import calibrate
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.environments.kinds import DevicesSpec
from trajmill.stages.environments.simulated.distance import SimulatedDistances
from trajmill.stages.environments.simulated.world import shared_world

WORLD = shared_world(())
ROOF = annotated_query(
    task_of(WORLD, "files.delete"),
    ("files.home", "files.folder", "files.file", "files.delete", "files.deleted"),
    {"file": "roof.odt"},
    "delete the file roof.odt",
)
WAY = ["launcher/files", "files.home/folders/Projects", "files.folder/files/roof.odt", "files.file/edit"]
WAY += ["files.file/delete", "files.delete/delete", "finish"]
WRONG_FOLDER = [WAY[0], "files.home/folders/Documents", "back", *WAY[1:]]
SONG = annotated_query(
    task_of(WORLD, "tunes.play"),
    ("tunes.home", "tunes.search", "tunes.song", "tunes.playing"),
    {"song": "Old Fence"},
    "play the song Old Fence",
)
BY_ARTIST = ["tunes.home/artists/Amber Lane", "tunes.artist/songs/Old Fence", "tunes.song/play", "finish"]


def unfinished(episode: Episode) -> Episode:
    *steps, skipped, last = episode.steps
    here = {"screen_before": skipped.screen_before, "screen_after": skipped.screen_before}
    trajectory = episode.trajectory.model_copy(update={"reward": 0.0})
    return episode.model_copy(update={"steps": (*steps, last.model_copy(update=here)), "trajectory": trajectory})


@pytest.mark.slow
async def test_right_walks_are_correct_and_unfinished_ones_are_not() -> None:
    seen, queries = SeenTrees(), await queries_of(110)
    walks = [await walk_of(query, seed) for seed, query in enumerate(queries)]
    for walk in walks:
        seen.observations |= walk.observations
    episodes = [walk.episode for walk in walks]
    assert len({episode.query.task for episode in episodes}) > 80
    assert all(episode.trajectory.reward == 1.0 for episode in episodes)
    cut = [unfinished(episode) for episode in episodes if episode.steps[-2].action_kind == "click"]
    judged = await judge_episodes([*episodes, *cut], annotated_judge(), seen, ORIGIN)
    assert judged.failures == []
    counts = {quality.level: quality for quality in calibrate(judged.episodes, seen)}
    for level in ("trajectory", "text", "multimodal"):
        assert counts[level].false_negative <= len(episodes) // 25, level
        assert counts[level].false_positive <= len(cut) // 50, level
    harmful = [v for e in judged.episodes[: len(episodes)] for v in e.step_verdicts if v.label == "HARMFUL"]
    assert len(harmful) <= len(episodes) // 25


def judged(query: Query, script: list[str], seen: SeenTrees) -> Episode:
    episode = scripted_episode(WORLD, query, script, seen)
    return asyncio.run(judge_episodes([episode], annotated_judge(), seen, ORIGIN)).episodes[0]


@pytest.mark.parametrize(
    ("query", "script", "expected"),
    [
        (ROOF, WRONG_FOLDER, "GHGGGGGGG"),
        (ROOF, [*WAY[:2], "home", WAY[0], *WAY[2:]], "GGHGGGGGG"),
        (ROOF, [WAY[0], "files.home/folders/Documents", "files.folder/files/cv.odt", *WAY[3:]], "GHHNHHH"),
        (SONG, ["launcher/tunes", "tunes.home/artists/Night Ferry", "back", *BY_ARTIST], "GHGGGGG"),
    ],
    ids=["a wrong folder and the way back", "a loop", "another file is deleted", "a way that was not annotated"],
)
def test_steps_are_labelled_by_what_they_do_to_the_goal(query: Query, script: list[str], expected: str) -> None:
    seen = SeenTrees()
    episode = judged(query, script, seen)
    assert "".join(label[0] for label in labels(episode)) == expected
    measured = SimulatedDistances(WORLD, NO_FAULTS, DevicesSpec())
    quality = next(each for each in calibrate([episode], seen, measured) if each.level == "step")
    assert (quality.false_positive, quality.false_negative) == (0, 0)
    assert quality.true_positive == expected[:-1].count("G")
    # Without distances, the steps are not compared.
    assert {each.level for each in calibrate([episode], seen)} == {"trajectory", "text", "multimodal"}
