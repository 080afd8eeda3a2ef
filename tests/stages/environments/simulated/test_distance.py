"""The distance to the goal, measured on real simulated devices."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.stages.environments.simulated.scripted import NO_FAULTS, SeenTrees, annotated_query, scripted_episode
from tests.stages.environments.simulated.worlds import paths_of, query_of, task_of
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.kinds import DevicesSpec
from trajmill.stages.environments.simulated.distance import GoalDistance, SimulatedDistances
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import Position, Walker
from trajmill.stages.environments.simulated.world import TaskGraph, shared_world

WORLD = shared_world(())
FOLDERS = ("files.home", "files.folder", "files.file", "files.delete", "files.deleted")
ROOF = annotated_query(task_of(WORLD, "files.delete"), FOLDERS, {"file": "roof.odt"}, "delete the file roof.odt")


def distances(query: Query, *script: str) -> list[int | None] | None:
    return SimulatedDistances(WORLD, NO_FAULTS, DevicesSpec())(scripted_episode(WORLD, query, script, SeenTrees()))


@pytest.mark.parametrize("task", WORLD.tasks()[::7], ids=lambda task: task.name)
def test_no_step_of_an_annotated_path_leads_away_from_the_goal(task: TaskGraph) -> None:
    pages = next(iter(paths_of(task)))
    chance = random.Random(task.name)
    values = {slot.spec.name: chance.choice(slot.values) for slot in task.slots if slot.values}
    query = annotated_query(task, pages, values, task.spec.description)
    measure, device = GoalDistance(WORLD, query), SimulatedEnvironment(WORLD, task.platform, NO_FAULTS)
    observation, position = device.reset_now(query, 3), Position()
    unread = measure.unread(device.device())
    found = [measure.measure(device.device(), unread)]
    for _ in range(80):
        action, position = Walker(query.path, task.platform).next_action(observation, position)
        if action.kind == "terminate":
            break
        observation = device.step_now(action)
        unread = measure.unread(device.device(), unread)
        found.append(measure.measure(device.device(), unread))
    known = [each for each in found if each is not None]
    assert len(known) == len(found), found
    assert known[0] > 0 and known[-1] == 0
    assert all(before - after in (0, 1) for before, after in pairwise(known)), known


def test_a_wrong_folder_is_one_action_away_and_the_way_back_undoes_it() -> None:
    script = ["launcher/files", "files.home/folders/Documents", "back", "files.home/folders/Projects"]
    script += ["files.folder/files/roof.odt", "files.file/edit", "files.file/delete", "files.delete/delete", "finish"]
    assert distances(ROOF, *script) == [6, 5, 6, 5, 4, 3, 2, 1, 0, 0]


def test_a_loop_through_the_launcher_ends_where_it_began() -> None:
    found = distances(ROOF, "launcher/files", "home", "launcher/files", "home", "finish")
    assert found is not None
    first = found[0]
    assert first is not None
    assert found == [first, first - 1, first, first - 1, first, first]


def test_after_the_wrong_file_is_deleted_no_action_leads_to_the_goal() -> None:
    script = ["launcher/files", "files.home/folders/Documents", "files.folder/files/cv.odt", "files.file/edit"]
    found = distances(ROOF, *script, "files.file/delete", "files.delete/delete", "files.deleted/done", "finish")
    assert found is not None
    assert found[-3:] == [None, None, None]
    assert None not in found[:-3]


def test_every_way_to_the_goal_counts_not_only_the_annotated_one() -> None:
    pages = ("tunes.home", "tunes.search", "tunes.song", "tunes.playing")
    query = annotated_query(task_of(WORLD, "tunes.play"), pages, {"song": "Old Fence"}, "play Old Fence")
    by_artist = ["tunes.home/artists/Amber Lane", "tunes.artist/songs/Old Fence"]
    found = distances(query, "launcher/tunes", *by_artist, "tunes.song/play", "finish")
    assert found == [4, 3, 2, 1, 0, 0]


def test_a_value_must_be_read_in_the_other_app_first() -> None:
    task = task_of(WORLD, "from_mail.redeem")
    pages = ("mail.inbox", "mail.mail", "wallet.home", "wallet.voucher", "wallet.redeemed")
    values = {"mail": "Welcome gift", "code": "FJORD7"}
    query = annotated_query(task, pages, dict(values), "redeem the code from the mail Welcome gift in Wallet")
    reading = ["launcher/mail", "down", "down", "mail.inbox/mails/Welcome gift"]
    assert distances(query, *reading, "home", "launcher/wallet", "finish") == [8, 7, 7, 7, 6, 5, 4, 4]
    assert distances(query, "launcher/wallet", "home", *reading, "finish") == [8, 7, 8, 7, 7, 7, 6, 6]


def test_an_episode_of_other_devices_is_not_measured() -> None:
    episode = scripted_episode(WORLD, ROOF, ["launcher/files", "home", "finish"], SeenTrees())
    measure = SimulatedDistances(WORLD, NO_FAULTS, DevicesSpec())
    assert measure(episode) is not None
    moved = episode.trajectory.model_copy(update={"seed": episode.trajectory.seed + 1})
    assert measure(episode.model_copy(update={"trajectory": moved})) is None
    assert measure(_without_goal(episode)) is None


def _without_goal(episode: Episode) -> Episode:
    return episode.model_copy(update={"query": query_of(episode.query.platform)})
