import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from tests.stages.critics.little_app import (
    ORIGIN,
    PRESS,
    Trees,
    Walk,
    checkout,
    dish,
    element,
    food_query,
    history,
    is_correct,
    judged,
    labels,
    launcher,
    menu,
    page,
    placed,
    right_walk,
    to_dish,
    typed,
)
from tests.stages.critics.phone import impossible_query, queries_of, walk_of
from tests.stages.environments.simulated.scripted import NO_FAULTS, SeenTrees, annotated_query, scripted_episode
from tests.stages.environments.simulated.worlds import task_of
from trajmill.schemas.actions import Swipe, SystemButton, Wait
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import ASKED, PathStep, Platform, Query, Slot, Source
from trajmill.stages.critics.app_graph.channels import StepCriticByGraph, annotated_judge
from trajmill.stages.critics.app_graph.reading import first_error
from trajmill.stages.critics.calibration.agreement import calibrate
from trajmill.stages.critics.judge import Judge, judge_episode, judge_episodes
from trajmill.stages.critics.voting import ProgrammaticChannel, single_vote
from trajmill.stages.environments.kinds import DevicesSpec
from trajmill.stages.environments.simulated.distance import SimulatedDistances
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.environments.tasks import own_query

DISH, SIZE, NOTE = RECEIPT = ("1 x Margherita", "Size: Large", "Note: ring twice")
BACK, HOME, ENTER = (SystemButton.model_validate({"button": name}) for name in ("Back", "Home", "Enter"))
ON = ("clickable", "checked")
READ = food_query(slots=(food_query().slots[0].model_copy(update={"said": ""}),))  # on a page that was not visited


def ordered(walk: Walk, *receipt: str) -> Episode:
    return typed(walk).tap("Place order", placed(*(receipt or RECEIPT))).end()


def large(trees: Trees) -> Walk:
    return to_dish(trees).tap("Large", dish(size="Large"))


def by_the_past_orders(walk: Walk) -> Walk:
    return walk.do(BACK, menu()).tap("Past orders", history()).do(BACK, menu()).tap("Margherita", dish())


WRONG: Final[dict[str, Callable[[Trees], Episode]]] = {
    "wrong size": lambda trees: ordered(to_dish(trees).tap("Small", dish(size="Small")), DISH, "Size: Small", NOTE),
    "extra switch": lambda trees: ordered(large(trees).tap("Extra spicy", dish(size="Large", spicy=True))),
    "two": lambda trees: ordered(large(trees).tap("+", dish(size="Large", quantity=2)), "2 x Margherita", SIZE, NOTE),
    "wrong dish": lambda trees: ordered(start(trees, menu()).tap("Diavola", dish("Diavola", "Large")), *RECEIPT),
    "right dish, then a wrong one": lambda trees: ordered(
        large(trees).do(BACK, menu()).tap("Diavola", dish("Diavola", "Large")), "1 x Diavola", SIZE, NOTE
    ),
    "wrong note": lambda trees: typed(large(trees), "ring").tap("Place order", placed(DISH, SIZE, "Note: ring")).end(),
    "set and undone": lambda trees: ordered(large(trees).tap("Medium", dish()), DISH, "Size: Medium", NOTE),
    "not sent off": lambda trees: typed(large(trees)).end(),
    "twice": lambda trees: right_walk(trees).do(BACK, checkout(NOTE)).tap("Place order", placed(*RECEIPT)).end(),
    "read": lambda trees: start(trees, dish("a")).tap("Go to checkout", placed()).end(READ),
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
    assert episode.judgement and (episode.judgement.first_error_step is None) is (name == "never said so")


@pytest.mark.parametrize(
    ("detour", "redundant", "expected"),
    [
        (lambda walk: walk, (), ["GOOD", "GOOD"]),
        (lambda walk: walk.stay(Wait()), (2,), ["NEUTRAL", "GOOD"]),
        (lambda walk: walk.tap("Extra spicy", dish(spicy=True)).tap("Extra spicy", dish()), (2,), ["HARMFUL", "GOOD"]),
        (by_the_past_orders, (2, 3), ["HARMFUL", "HARMFUL"]),
    ],
    ids=["no detour", "an idle step", "a change taken back", "another page"],
)
def test_a_detour_is_redundant_but_no_error(
    detour: Callable[[Walk], Walk], redundant: tuple[int, ...], expected: list[str]
) -> None:
    trees = Trees()
    episode = judged(ordered(detour(to_dish(trees)).tap("Large", dish(size="Large"))), trees)
    assert episode.judgement is not None and episode.judgement.correct and episode.judgement.agreed
    assert episode.judgement.rule == "consensus(text,multimodal)" and episode.judgement.first_error_step is None
    assert (episode.judgement.redundant_steps, labels(episode)[2:4]) == (redundant, expected)


def test_steps_have_labels_and_short_summaries_for_which_no_text_on_a_screen_can_speak() -> None:
    trees = Trees()
    walk = to_dish(trees).stay(Wait()).stay(None).tap("Small", dish(size="Small")).tap("Large", dish(size="Large"))
    walk.tap("Medium", dish()).do(BACK, menu()).stay(Swipe(x=1, y=900, x2=1, y2=300))
    episode = judged(walk.end(), trees)
    assert labels(episode)[2:] == ["NEUTRAL", "HARMFUL", "HARMFUL", "GOOD", "HARMFUL", "HARMFUL", "NEUTRAL", "HARMFUL"]
    assert "no action" in episode.step_verdicts[3].analysis
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


def start(trees: Trees, first: tuple[UIElement, ...]) -> Walk:
    return Walk(launcher(), trees).tap("Food", first)


def options(music: bool, alerts: bool = False) -> tuple[UIElement, ...]:
    switches = (("Music", music), ("Alerts", alerts))
    return page("options", "Options", *(("switch", name, ON if on else PRESS, "", name) for name, on in switches))


def test_a_switch_that_only_the_instruction_mentions_is_found_and_no_other_pressed() -> None:
    page = {"pages": ("food.options",), "page_descriptions": ("Music and alerts.",), "slots": ()}
    asked = food_query(instruction="I want no music, turn it off in the options.", **page)
    trees = Trees()
    right = judged(start(trees, options(True)).tap("Music", options(False)).end(asked), trees)
    assert labels(right) == ["GOOD"] * 3 and right.judgement is not None and right.judgement.correct
    for pressed in (["Alerts"], ["Music", "Alerts"], [], ["Music", "Music"]):
        music, alerts = True, False
        walk = start(trees, options(music, alerts))
        for name in pressed:
            music, alerts = music != (name == "Music"), alerts != (name == "Alerts")
            walk.tap(name, options(music, alerts))
        assert not is_correct(walk.end(asked), trees), pressed


def other_form(mood: str) -> tuple[UIElement, ...]:
    choices = [("radio", text, ON if text == mood else PRESS, "Mood", f"mood/{text}") for text in ("Calm", "Loud")]
    fields = [("text_field", "Title", ("clickable", "editable"), "", "title"), ("button", "Create", PRESS, "", "go")]
    return page("form", "New playlist", *choices, *fields)


def test_a_form_that_is_left_alone_does_no_harm_but_a_setting_and_something_else_that_is_done_do() -> None:
    trees = Trees()
    walk = start(trees, other_form("Calm")).tap("Loud", other_form("Loud")).do(BACK, menu())
    assert is_correct(ordered(walk.tap("Margherita", dish()).tap("Large", dish(size="Large"))), trees)
    walk = right_walk(trees).do(HOME, launcher()).tap("Food", options(True))
    assert not is_correct(walk.tap("Music", options(False)).end(), trees)
    question = page("ask", "Save this?", ("button", "Save", PRESS, "", "save"))
    done = page("saved", "Place saved", ("value", "Saved: Park", (), "", "what"))
    for after in (done, menu()):
        walk = right_walk(trees).do(HOME, launcher()).tap("Food", question).tap("Save", after)
        assert not is_correct(walk.end(), trees)


def test_a_slow_page_a_message_in_the_way_and_a_choice_out_of_sight_change_nothing() -> None:
    trees = Trees()
    loading = (element("heading", "Loading", 0, ("title",), "", "loading/title"),)
    title = element("heading", "Enjoying Food?", 0, ("title",), "", "popup/title")
    message = (title, element("button", "Not now", 1, PRESS, "", "popup/0"))
    walk = start(trees, message).tap("Not now", menu()).tap("Margherita", loading).do(ENTER, dish())
    walk.tap("Large", dish(size="Large")).tap("Go to checkout", checkout()).write("ring twice", checkout("ring twice"))
    episode = judged(walk.tap("Place order", loading).do(ENTER, placed(*RECEIPT)).end(), trees)
    assert episode.judgement is not None and episode.judgement.correct
    assert "HARMFUL" not in labels(episode) and labels(episode)[2] == "GOOD"
    trees = Trees()
    scrolled = dish(size="Large")[:2] + dish(size="Large")[4:]
    assert is_correct(ordered(large(trees).do(SystemButton(button="Menu"), scrolled)), trees)


def test_tasks_without_known_annotations_stay_unjudged_and_are_failures() -> None:
    window = {"pages": ("mousepad.start",), "page_descriptions": ("The window that is open at the start.",)}
    atomic = food_query(source=Source.ATOMIC, slots=(), **window)
    pages = ("com.android.settings.wifi", "com.android.settings.main")
    seen = {"apps": ("com.android.settings",), "pages": pages, "page_descriptions": ("A page.", "A page.")}
    android = own_query(Platform.PHONE, "turn-on-wifi", "Turn Wi-Fi on.", "{}", ORIGIN, "test", **seen)
    pathway = food_query(source=Source.PATHWAY)
    nowhere = food_query(pages=(), page_descriptions=(), slots=())
    untold = food_query(page_descriptions=("The dishes.", "", "Where to deliver.", "Confirms the order."))
    trees, asked = Trees(), [atomic, android, pathway, nowhere, untold]
    walks = [right_walk(trees).end(query, trajectory_id=f"t{at}", reward=1.0) for at, query in enumerate(asked)]
    found = asyncio.run(judge_episodes(walks, annotated_judge(), trees, ORIGIN))
    assert found.episodes == walks
    assert [failure.input_id for failure in found.failures] == [walk.trajectory.trajectory_id for walk in walks]
    assert {failure.failure_class for failure in found.failures} == {FailureClass.JUDGE}
    assert all("not those of an annotated app" in failure.message for failure in found.failures)


async def test_without_known_annotations_no_step_is_good_and_the_first_error_is_not_known() -> None:
    walk, atomic = to_dish(Trees()).stay(None).stay(Wait()).stay(Wait()), food_query(source=Source.ATOMIC)
    steps = await StepCriticByGraph({}).judge(walk.end(atomic), walk.trees)
    assert [step.label[0] for step in steps] == ["U", "U", "H", "U", "N", "U"] and first_error(steps) is None
    assert [first_error(steps[2:]), first_error(steps[4:5])] == [2, None]
    by_check = Judge(StepCriticByGraph({}), (single_vote(ProgrammaticChannel()),))
    made = await judge_episode(walk.end(atomic, reward=0.0), by_check, walk.trees, ORIGIN)
    counts = calibrate([made], walk.trees, lambda episode: [9, 8, 7, 6, 5, 4, 3, 2])
    assert [sum(each.model_dump(exclude={"level"}).values()) for each in counts if each.level == "step"] == [0]


WORLD = shared_world(())
ROOF = annotated_query(
    task_of(WORLD, "files.delete"),
    ("files.home", "files.folder", "files.actions", "files.delete", "files.deleted"),
    {"file": "roof.odt"},
    "delete the file roof.odt",
)
WAY = ["launcher/files", "down", "files.home/folders/Projects", "hold files.folder/files/roof.odt"]
WAY += ["files.actions/delete", "files.delete/delete", "finish"]
LIST, LANGUAGES = ["launcher/notes", "notes.home/shopping"], ["launcher/settings", "settings.home/language"]
ADD = ["notes.shopping/item", "type milk", "enter"]
SHOPPING = task_of(WORLD, "notes.shopping")
MILK = annotated_query(SHOPPING, ("notes.home", "notes.shopping"), {"item": "milk"}, 'put "milk" on the shopping list')
SONGS = ("tunes.home", "tunes.search", "tunes.song", "tunes.playing")
SONG = annotated_query(task_of(WORLD, "tunes.play"), SONGS, {"song": "Old Fence"}, "play the song Old Fence")
BY_ARTIST = ["tunes.home/artists/Amber Lane", "tunes.artist/songs/Old Fence", "tunes.song/play", "finish"]


BAZAAR = ("bazaar.home", "bazaar.shelf", "bazaar.product", "bazaar.delivery", "bazaar.pay", "bazaar.bought")
MAT = annotated_query(task_of(WORLD, "bazaar.buy"), BAZAAR, {"product": "Yoga Mat"}, "buy a Yoga Mat in the Bazaar")
TO_MAT = ["launcher/bazaar", "bazaar.home/departments/Sport", "bazaar.shelf/products/Yoga Mat"]


def unfinished(episode: Episode) -> Episode:
    *steps, skipped, last = episode.steps
    here = {"screen_before": skipped.screen_before, "screen_after": skipped.screen_before}
    trajectory = episode.trajectory.model_copy(update={"reward": 0.0})
    return episode.model_copy(update={"steps": (*steps, last.model_copy(update=here)), "trajectory": trajectory})


@pytest.mark.slow
async def test_right_walks_are_correct_and_unfinished_ones_are_not() -> None:
    seen, queries = SeenTrees(), await queries_of(60)
    walks = [await walk_of(query, seed) for seed, query in enumerate(queries)]
    for walk in walks:
        seen.observations |= walk.observations
    episodes = [walk.episode for walk in walks]
    assert len({episode.query.task for episode in episodes}) > 45
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


@pytest.mark.parametrize(
    ("query", "script", "expected"),
    [
        (ROOF, [WAY[0], "files.home/folders/Documents", "back", *WAY[1:]], "GHGNGGGGG"),
        (ROOF, [WAY[0], "files.home/folders/Documents", "hold files.folder/files/cv.odt", *WAY[4:]], "GHHHHH"),
        (SONG, ["launcher/tunes", "tunes.home/artists/Night Ferry", "back", *BY_ARTIST], "GHGGGGG"),
        (MAT, [*TO_MAT, "bazaar.product/quantity/+", "bazaar.product/buy", "bazaar.delivery/pay", "finish"], "GGGHHHH"),
        (MILK, [*LIST, *ADD, ADD[0], "finish"], "GGGGGNG"),
    ],
    ids=["a wrong folder and the way back", "another file is deleted", "a way off the path", "two", "done already"],
)
def test_steps_are_labelled_by_what_they_do_to_the_goal(query: Query, script: list[str], expected: str) -> None:
    seen = SeenTrees()
    made = judge_episodes([scripted_episode(WORLD, query, script, seen)], annotated_judge(), seen, ORIGIN)
    (episode,) = asyncio.run(made).episodes
    assert "".join(label[0] for label in labels(episode)) == expected
    measured = SimulatedDistances(WORLD, NO_FAULTS, DevicesSpec())
    quality = next(each for each in calibrate([episode], seen, measured) if each.level == "step")
    assert (quality.false_positive, quality.false_negative) == (0, 0)
    assert quality.true_positive == expected[:-1].count("G")


def test_what_enter_adds_is_chosen_before_giving_up_or_stands_on_another_page_counts() -> None:
    spanish, chosen = asyncio.run(impossible_query(WORLD, "settings.language", ORIGIN)), "settings.language/languages/"
    seen = SeenTrees()
    # No screen shows what is chosen at the end of the list; the top shows that something was.
    unseen = [*LANGUAGES, f"{chosen}Turkish", "up", "give up"]
    writing = asyncio.run(impossible_query(WORLD, "mail.write", ORIGIN))
    astray = ["launcher/mail", "mail.inbox/mails/Check-up", "back", "mail.inbox/compose", "up", "give up"]
    task, mail = task_of(WORLD, "mail.move"), "Parents evening"
    about = annotated_query(task, ("mail.inbox", "mail.actions"), {"mail": mail, "folder": "Work"}, "who sent it?")
    sender = Slot(name="Sender", value=ASKED, said="", page="mail.actions")
    about = about.model_copy(update={"slots": (about.slots[0], sender)})
    answers = [["launcher/mail", f"mail.inbox/mails/{each}", "answer School Office"] for each in (mail, "Check-up")]
    tried = [(MILK, [*LIST, *ADD]), (MILK, [*LIST, *ADD, *ADD]), (spanish, unseen), (writing, astray)]
    tried += [(about, script) for script in answers]
    episodes = [scripted_episode(WORLD, query, [*script, "finish"], seen) for query, script in tried]
    assert any("scrollable_up" in each.states for each in seen.elements(episodes[2].steps[1].screen_after))
    made = asyncio.run(judge_episodes(episodes, annotated_judge(), seen, ORIGIN)).episodes
    assert [each.trajectory.reward == 1.0 for each in made[:4]] == [True, False, False, True]
    assert [each.judged_reward for each in made] == [1.0, 0.0, None, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(("fields", "is_right"), [(["subject"], True), (["subject", "body"], False)])
def test_a_value_counts_only_in_the_field_that_it_is_for(fields: list[str], is_right: bool) -> None:
    entered = [step for name in fields for step in (f"mail.compose/{name}", "type Holiday")]
    script = ["launcher/mail", "mail.inbox/compose", "mail.addresses/addresses/Leo Tanaka", *entered]
    pages, asked = ("mail.inbox", "mail.addresses", "mail.compose", "mail.sent"), 'mail Leo Tanaka, subject "Holiday"'
    query = annotated_query(task_of(WORLD, "mail.write"), pages, {"to": "Leo Tanaka", "subject": "Holiday"}, asked)
    seen = SeenTrees()
    walk = scripted_episode(WORLD, query, [*script, "mail.compose/send", "finish"], seen)
    (episode,) = asyncio.run(judge_episodes([walk], annotated_judge(), seen, ORIGIN)).episodes
    assert episode.judgement is not None
    assert episode.judgement.correct is is_right is (episode.trajectory.reward == 1.0)
    assert labels(episode)[3:-2:2] == ["GOOD", "NEUTRAL"][: len(fields)], "only one field is asked for"
