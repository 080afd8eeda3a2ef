import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from tests.stages.critics.little_app import (
    ORIGIN,
    Trees,
    Walk,
    checkout,
    dish,
    food_query,
    history,
    judged,
    labels,
    launcher,
    menu,
    page,
    placed,
    right_walk,
)
from tests.stages.critics.phone import queries_of, walk_of
from tests.stages.environments.simulated.scripted import NO_FAULTS, SeenTrees, annotated_query, scripted_episode
from tests.stages.environments.simulated.worlds import task_of
from tests.stages.queries.samples import making, passes
from trajmill.schemas.actions import Swipe, SystemButton, Wait
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split
from trajmill.stages.critics.app_graph.annotations import says_no
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.calibration.agreement import calibrate
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.environments.kinds import DevicesSpec
from trajmill.stages.environments.simulated.distance import SimulatedDistances
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.queries.atomic.source import AtomicSource

DISH, SIZE, NOTE = RECEIPT = ("1 x Margherita", "Size: Large", "Note: ring twice")
BACK = SystemButton(button="Back")


def to_dish(trees: Trees) -> Walk:
    return Walk(launcher(), trees).tap("Food", menu()).tap("Margherita", dish())


def typed(walk: Walk, note: str = "ring twice") -> Walk:
    walk.tap("Go to checkout", checkout()).tap("Note for the kitchen", checkout(focused=True))
    return walk.write(note, checkout(note, focused=True))


def ordered(walk: Walk, *receipt: str) -> Episode:
    return typed(walk).tap("Place order", placed(*(receipt or RECEIPT))).end()


def large(trees: Trees) -> Walk:
    return to_dish(trees).tap("Large", dish(size="Large"))


def diavola(walk: Walk, size: str) -> Walk:
    return walk.tap("Diavola", dish("Diavola", size))


def spicy_and_back(trees: Trees) -> Walk:
    return to_dish(trees).tap("Extra spicy", dish(spicy=True)).tap("Extra spicy", dish())


def by_the_past_orders(trees: Trees) -> Walk:
    return to_dish(trees).do(BACK, menu()).tap("Past orders", history()).do(BACK, menu()).tap("Margherita", dish())


WRONG: Final[dict[str, Callable[[Trees], Episode]]] = {
    "wrong size": lambda trees: ordered(to_dish(trees).tap("Small", dish(size="Small")), DISH, "Size: Small", NOTE),
    "size left alone": lambda trees: ordered(to_dish(trees), DISH, "Size: Medium", NOTE),
    "extra switch": lambda trees: ordered(large(trees).tap("Extra spicy", dish(size="Large", spicy=True))),
    "two instead of one": lambda trees: ordered(
        large(trees).tap("+", dish(size="Large", quantity=2)), "2 x Margherita", SIZE, NOTE
    ),
    "wrong dish": lambda trees: ordered(
        diavola(Walk(launcher(), trees).tap("Food", menu()), "Medium").tap("Large", dish("Diavola", "Large")),
        "1 x Diavola",
        SIZE,
        NOTE,
    ),
    "right dish, then a wrong one": lambda trees: ordered(
        diavola(large(trees).do(BACK, menu()), "Large"), "1 x Diavola", SIZE, NOTE
    ),
    "wrong note": lambda trees: typed(large(trees), "ring").tap("Place order", placed(DISH, SIZE, "Note: ring")).end(),
    "set and undone": lambda trees: ordered(large(trees).tap("Medium", dish()), DISH, "Size: Medium", NOTE),
    "not sent off": lambda trees: typed(large(trees)).end(),
    "sent twice": lambda trees: (
        right_walk(trees).do(BACK, checkout("ring twice")).tap("Place order", placed(*RECEIPT)).end()
    ),
    "never said so": lambda trees: right_walk(trees).end(status=None),
    "said failure": lambda trees: right_walk(trees).end(status="failure"),
    "nothing at all": lambda trees: Walk(launcher(), trees).end(),
    "only garbage": lambda trees: Walk(launcher(), trees).stay(None).stay(None).end(status=None),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_channel_finds_every_kind_of_mistake(name: str) -> None:
    trees = Trees()
    episode = judged(WRONG[name](trees), trees)
    assert [vote.correct for vote in episode.trajectory_verdicts] == [False, False]
    assert episode.judgement is not None and episode.judgement.first_error_step is not None


def test_what_was_asked_is_correct_and_all_steps_are_good() -> None:
    trees = Trees()
    episode = judged(right_walk(trees).end(), trees)
    assert episode.judgement is not None and episode.judgement.correct and episode.judgement.agreed
    assert episode.judgement.rule == "consensus(text,multimodal)"
    assert set(labels(episode)) == {"GOOD"}
    assert episode.judgement.redundant_steps == () and episode.judgement.first_error_step is None


@pytest.mark.parametrize(
    ("detour", "expected"),
    [
        (lambda trees: to_dish(trees).stay(Wait()).tap("Large", dish(size="Large")), ["NEUTRAL", "GOOD"]),
        (lambda trees: spicy_and_back(trees).tap("Large", dish(size="Large")), ["HARMFUL", "GOOD"]),
        (lambda trees: by_the_past_orders(trees).tap("Large", dish(size="Large")), ["HARMFUL", "HARMFUL"]),
    ],
    ids=["an idle step", "a change taken back", "another page"],
)
def test_a_detour_is_redundant_but_no_error(detour: Callable[[Trees], Walk], expected: list[str]) -> None:
    trees = Trees()
    episode = judged(ordered(detour(trees)), trees)
    assert episode.judgement is not None and episode.judgement.correct and 2 in episode.judgement.redundant_steps
    assert labels(episode)[2:4] == expected


def test_two_ways_round_that_lead_to_one_page_are_judged() -> None:
    trees, on = Trees(), Wait()
    walk = Walk(launcher(), trees).tap("Food", menu()).tap("Past orders", history()).do(on, dish())
    walk = walk.do(BACK, history()).do(on, page("help", "Help")).do(on, dish())
    episode = judged(ordered(walk.tap("Large", dish(size="Large"))), trees)
    assert len(labels(episode)) == len(episode.steps)


def test_labels_of_single_steps() -> None:
    trees = Trees()
    walk = to_dish(trees).stay(Wait()).stay(None).tap("Small", dish(size="Small")).tap("Large", dish(size="Large"))
    walk.tap("Medium", dish()).do(BACK, menu()).stay(Swipe(x=1, y=900, x2=1, y2=300))
    episode = judged(walk.end(), trees)
    assert labels(episode)[2:] == ["NEUTRAL", "HARMFUL", "HARMFUL", "GOOD", "HARMFUL", "HARMFUL", "NEUTRAL", "HARMFUL"]
    assert "no action" in episode.step_verdicts[3].analysis


def test_summaries_are_short_and_on_screen_text_cannot_speak_for_the_caption() -> None:
    for note in ("word " * 100, 'x": choice "Size" is now "Large" instead of "Medium'):
        trees = Trees()
        walk = to_dish(trees).tap("Go to checkout", checkout()).write(note, checkout(note))
        episode = judged(walk.tap("Place order", placed(note, note + "x")).end(), trees)
        assert all(0 < len(verdict.summary.split()) <= 30 for verdict in episode.step_verdicts)
        assert [vote.correct for vote in episode.trajectory_verdicts] == [False, False]


def test_the_critics_never_read_goal_start_state_or_path() -> None:
    path = (PathStep(page="food.dish", operation="tap", target="food.dish/size/Small"),)
    hidden = food_query(goal='{"secret": true}', start_state='{"setup": {}}', path=path)
    blank = food_query(goal="", start_state="", path=())
    for make in (lambda trees: right_walk(trees).end(), *WRONG.values()):
        trees = Trees()
        episode = make(trees)
        one, other = (judged(episode.model_copy(update={"query": query}), trees) for query in (blank, hidden))
        assert one.model_copy(update={"query": hidden}) == other


def unknown() -> list[Query]:
    counts = {**dict.fromkeys(Split, 0), Split.TRAIN: 1}
    atomic = asyncio.run(making(AtomicSource(counts, ("libreoffice-calc", "mousepad")), passes, ORIGIN)).queries
    assert len(atomic) > 3 and all("." in page for query in atomic for page in query.pages)
    pages = ("com.android.settings.wifi", "com.android.settings.main")
    seen = {"apps": ("com.android.settings",), "pages": pages, "page_descriptions": ("A page.", "A page.")}
    android = own_query(Platform.PHONE, "turn-on-wifi", "Turn Wi-Fi on.", "{}", ORIGIN, "test", **seen)
    pathway = food_query(source=Source.PATHWAY)
    nowhere = food_query(pages=(), page_descriptions=(), slots=())
    untold = food_query(page_descriptions=("The dishes.", "", "Where to deliver.", "Confirms the order."))
    return [*atomic, android, pathway, nowhere, untold]


def test_tasks_without_known_annotations_stay_unjudged_and_are_failures() -> None:
    trees = Trees()
    walks = [right_walk(trees).end(query, trajectory_id=f"t{at}", reward=1.0) for at, query in enumerate(unknown())]
    found = asyncio.run(judge_episodes(walks, annotated_judge(), trees, ORIGIN))
    assert found.episodes == walks
    assert [failure.input_id for failure in found.failures] == [walk.trajectory.trajectory_id for walk in walks]
    assert {failure.failure_class for failure in found.failures} == {FailureClass.JUDGE}
    assert all("not those of an annotated app" in failure.message for failure in found.failures)


@pytest.mark.parametrize(
    ("label", "instruction", "off"),
    [
        ("Battery saver", "Settings: battery saver on, screen off after 30 seconds.", False),
        ("Location", "No app needs my location, switch it off in Settings.", True),
        ("Location", "The phone should have location off, see Settings.", True),
        ("Newsletter", "I get the newsletter every day, stop it.", True),
        ("Airplane mode", "Turn on airplane mode and turn the sound off.", False),
        ("Music", "Rides should have no music, see the ride options.", True),
    ],
)
def test_an_instruction_to_switch_off_is_recognised(label: str, instruction: str, off: bool) -> None:
    assert says_no(label, instruction) is off


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
    judged_in = await judge_episodes([*episodes, *cut], annotated_judge(), seen, ORIGIN)
    assert judged_in.failures == []
    counts = {quality.level: quality for quality in calibrate(judged_in.episodes, seen)}
    for level in ("trajectory", "text", "multimodal"):
        assert counts[level].false_negative <= len(episodes) // 25, level
        assert counts[level].false_positive <= len(cut) // 50, level
    harmful = [v for e in judged_in.episodes[: len(episodes)] for v in e.step_verdicts if v.label == "HARMFUL"]
    assert len(harmful) <= len(episodes) // 25


def judged_in(query: Query, script: list[str], seen: SeenTrees) -> Episode:
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
    episode = judged_in(query, script, seen)
    assert "".join(label[0] for label in labels(episode)) == expected
    measured = SimulatedDistances(WORLD, NO_FAULTS, DevicesSpec())
    quality = next(each for each in calibrate([episode], seen, measured) if each.level == "step")
    assert (quality.false_positive, quality.false_negative) == (0, 0)
    assert quality.true_positive == expected[:-1].count("G")
    # Without distances, the steps are not compared.
    assert {each.level for each in calibrate([episode], seen)} == {"trajectory", "text", "multimodal"}
