"""Votes, step labels and probes by the graph of an app: on hand-made trees of two apps, in a clock and in a web app."""

import asyncio
import json
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.stages.critics.little_app import ORIGIN, PRESS, Trees, Walk, element
from tests.stages.critics.phone import walk_of
from tests.stages.environments.simulated.scripted import ScriptedAgent
from tests.stages.environments.state_api.apps import PHONE, serving
from tests.stages.queries.samples import drafted
from tests.stages.rollout.rolling import rolled_out
from trajmill.schemas.actions import PressKeys, TypeText
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.app_graph.channels import GraphChannel, StepCriticByGraph
from trajmill.stages.critics.app_graph.probe import GraphProber, ProbeChannel
from trajmill.stages.critics.voting import Vote
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.environments.state_api.environment import StateApiFactory
from trajmill.stages.graphs.base import AppGraph, Mark, Recogniser
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.episode import run_episode

ENTER, BACK = PressKeys(keys=("enter",)), PressKeys(keys=("back",))
DARK: Final = {"kind": "switch", "target": "dark", "name": "dark colours"}


def note_field(*values: str) -> dict[str, Any]:
    return {"kind": "field", "target": "note", "name": "the note", "values": values}


def graph(app: str, start: str, **pages: dict[str, Any]) -> AppGraph:
    """Each page is recognised by its heading; `elements` are targets by names, `ways` the pages that they lead to."""
    made = {}
    for name, page in pages.items():
        ways = [{"by": by, "to": to} for by, to in page.pop("ways", {}).items()]
        made[name] = {
            "title": f"the {name} page",
            "recognise": {"shows": [{"role": "heading", "text": name.capitalize()}]},
            "elements": {each: {"target": at, "name": each} for each, at in page.pop("elements", {}).items()},
            "transitions": [*ways, *page.pop("transitions", [])],
            **page,
        }
    common = {"title": app, "platform": Platform.WEB, "start_state": {"url": "http://127.0.0.1:1/"}}
    return AppGraph.model_validate({"app": app, "start": start, "pages": made, **common})


def adds_note(page: str, role: str) -> dict[str, Any]:
    enter = {"by": "note", "operation": "key", "keys": "enter", "slots": ["note"], "to": page, "does": "Adds {note}."}
    return enter | {"shows": [{"role": role, "text": "{note}"}]}


def likes(number: int) -> dict[str, Any]:
    by = f"like-{number}"
    shows, lacks = ([{"role": "button", "text": f"{text} {number}", "id": by}] for text in ("Liked", "Like"))
    return {"by": by, "to": "machines", "does": f"Likes machine {number}.", "shows": shows, "lacks": lacks}


MACHINES = ("Lathe", "Mill")
WORKSHOP = graph(
    "workshop",
    "notes",
    notes={
        "elements": {"machines": "tab"},
        "slots": {"note": note_field("Lathe", "oil")},
        "ways": {"machines": "machines"},
        "transitions": [adds_note("notes", "list_item")],
    },
    machines={
        "elements": {"like-1": "like-1", "like-2": "like-2"},
        "slots": {"filter": {"kind": "field", "target": "q", "name": "the filter", "values": MACHINES}, "dark": DARK},
        "transitions": [likes(1), likes(2)],
    },
)


def dark_box(row: int, dark: bool) -> UIElement:
    return element("checkbox", "Dark", row, ("clickable", *(("checked",) if dark else ())), "", "dark")


def notes(text: str = "", *added: str) -> tuple[UIElement, ...]:
    field = element("text_field", "Note", 2, ("clickable", "editable", "focused"), text, "note")
    items = [element("list_item", each, 3 + at) for at, each in enumerate(added)]
    return element("heading", "Notes", 0), element("button", "Machines", 1, PRESS, "", "tab"), field, *items


def machines(*liked: int, text: str = "", dark: bool = False) -> tuple[UIElement, ...]:
    field = element("search_field", "Filter", 1, ("clickable", "editable"), text, "q")
    buttons = [
        element("button", f"Liked {n}" if n in liked else f"Like {n}", 2 + n, PRESS, "", f"like-{n}") for n in (1, 2)
    ]
    items = [element("list_item", name, 6 + at) for at, name in enumerate(MACHINES)]
    return element("heading", "Machines", 0), field, dark_box(2, dark), *buttons, *items


def query(task: str, value: str = "", of: AppGraph = WORKSHOP) -> Query:
    samples = samples_by_task(of, 0)[f"{of.app}.{task}"]
    sample = next(each for each in samples if not value or value in [setting.value for setting in each.settings])
    return drafted(RouteGoal(sample), ORIGIN)


def vote(episode: Episode, screens: ScreenReader, by: AppGraph = WORKSHOP) -> Vote:
    channels = (GraphChannel(channel, {by.app: by}) for channel in (Channel.TEXT, Channel.MULTIMODAL))
    text, multimodal = (asyncio.run(channel.judge(episode, screens, [])) for channel in channels)
    assert text.correct is multimodal.correct, "each channel judges alone"
    return text


def is_correct(walk: Walk, asked: Query) -> bool:
    return vote(walk.end(asked), walk.trees).correct


def begun() -> Walk:
    return Walk(notes(), Trees())


def on_machines() -> Walk:
    return begun().tap("Machines", machines())


def test_an_item_of_a_list_is_no_entered_value() -> None:
    asked, early = query("machines-set-filter", "Lathe"), on_machines()
    end = vote(early.end(asked), early.trees)
    assert not end.correct and "filter is not 'Lathe' at the end" in end.reason
    assert is_correct(on_machines().tap("Filter", machines()).write("Lathe", machines(text="Lathe")), asked)


def test_each_press_counts_until_it_is_taken_back() -> None:
    asked, half = query("machines-like-1-like-2"), on_machines().tap("Like 1", machines(1))
    found = vote(half.end(asked), half.trees)
    assert not found.correct
    assert "did not do 'like-2'" in found.reason and "Like 2 still stands" in found.reason.replace("'", "")
    assert is_correct(half.tap("Like 2", machines(1, 2)), asked)
    asked = query("machines-like-1")
    back = on_machines().tap("Like 1", machines(1)).tap("Liked 1", machines())
    assert not is_correct(back, asked)
    again = on_machines().tap("Like 1", machines(1)).tap("Liked 1", machines()).tap("Like 1", machines(1))
    assert is_correct(again, asked)
    assert not is_correct(on_machines().tap("Like 2", machines(2)).tap("Like 1", machines(1, 2)), asked)


def head(text: str) -> dict[str, str]:
    return {"role": "text", "text": text}


ORDERS: Final[dict[str, Any]] = {
    "elements": {f"{name}-{way}": f"text:{name} {way}" for name in ("name", "age") for way in ("up", "down")},
    "slots": {"show": {"kind": "choice", "target": "list_item:{value}", "opens": "show", "values": ("10", "25")}},
    "transitions": [
        {"by": by, "after": after, "to": "rows", "does": f"Sort by {does}.", "shows": [*map(head, shows)]}
        for by, after, does, shows in (
            ("name-down", [], "Name in descending order", ["name up"]),
            ("name-up", ["name-down"], "Name", ["name down"]),
            ("age-up", [], "Age", ["name up", "age down"]),
            ("age-down", ["age-up"], "Age in descending order", ["age up", "oldest first"]),
        )
    ],
}
TABLE = graph("table", "rows", rows=ORDERS)


def rows(*heads: str, shown: str = "10", options: tuple[str, ...] = ()) -> tuple[UIElement, ...]:
    """A table whose heads say what a press on them does, below the options of an open list."""
    texts = [element("text", each, 1 + at, PRESS) for at, each in enumerate(heads)]
    listed = [element("list_item", each, 1 + at, PRESS) for at, each in enumerate(options)]
    return element("heading", "Rows", 0), *texts, element("combo_box", "Show", 4, PRESS, shown, "show"), *listed


def test_the_last_order_counts_one_that_no_head_tells_is_no_wish_and_an_open_list_lies_over_the_heads() -> None:
    assert {"rows-age-up", "rows-age-down"} == {task[6:] for task in samples_by_task(TABLE, 0) if "show" not in task}
    walk = Walk(rows("name down", "age up"), Trees()).tap("age up", rows("name up", "age down"))
    heads = ("name up", "age up", "oldest first")
    walk = walk.tap("age down", rows(*heads)).tap("Show", rows(*heads, options=("10", "25")))
    walk = walk.tap("25", rows(*heads, shown="25"))
    assert vote(walk.end(query("rows-age-down-set-show", "25", TABLE)), walk.trees, TABLE).correct


def test_an_act_needs_the_value_in_its_own_field() -> None:
    asked = query("notes-note", "Lathe")
    for text, correct in (("Lathe", True), ("oil", False)):
        sent = begun().do(TypeText(text=text), notes(text)).do(ENTER, notes("", text))
        assert is_correct(sent, asked) is correct
    assert is_correct(begun().do(TypeText(text="Lathe", enter=True), notes("", "Lathe")), asked)


def test_a_setting_that_nobody_asked_for_is_an_error_until_it_is_put_back() -> None:
    asked = query("machines-like-1")
    changed = on_machines().tap("Dark", machines(dark=True)).tap("Like 1", machines(1, dark=True))
    found = vote(changed.end(asked), changed.trees)
    assert not found.correct and "dark" in found.reason
    put_back = on_machines().tap("Dark", machines(dark=True)).tap("Dark", machines()).tap("Like 1", machines(1))
    assert is_correct(put_back, asked)


def workshop_with(**changes: object) -> AppGraph:
    pages = {name: page.model_copy(update=changes) for name, page in WORKSHOP.pages.items()}
    return WORKSHOP.model_copy(update={"pages": pages})


def test_what_no_screen_shows_or_nobody_can_read_is_unjudged() -> None:
    done, asked = on_machines().tap("Like 1", machines(1)), query("machines-like-1")
    for goal in ('{"all": [{"check": "url", "contains": "/x"}]}', '{"showing": [{}]}', "[]"):
        episode = done.end(asked.model_copy(update={"goal": goal}))
        with pytest.raises(JudgeFailure, match="goal"):
            vote(episode, done.trees)


def test_the_answers_of_a_causal_chain_must_have_been_seen_in_their_turn() -> None:
    asked, done = query("machines-like-1"), on_machines().tap("Like 1", machines(1))
    chain = '{"pathway": [{"showing": [{"role": "list_item", "text": "Mill"}]}]}'
    assert vote(done.end(asked.model_copy(update={"goal": chain})), done.trees).correct
    never = chain.replace("Mill", "Saw")
    end = vote(done.end(asked.model_copy(update={"goal": never})), done.trees)
    assert not end.correct and "answer 1 of 1" in end.reason


@pytest.mark.parametrize(("task", "value"), [("options-set-snooze", "5 minutes"), ("running-lengths", "3 minutes")])
def test_a_right_walk_on_the_graph_of_an_app_file_is_correct_and_its_steps_are_good(task: str, value: str) -> None:
    clock = graph_of_app(shared_world(()).apps["clock"])
    walk = asyncio.run(walk_of(query(task, value, clock)))
    assert walk.episode.trajectory.reward == 1.0 and vote(walk.episode, walk.screens(), clock).correct
    found = asyncio.run(StepCriticByGraph({clock.app: clock}).judge(walk.episode, walk.screens()))
    assert [step.label.value for step in found][-2:] == ["GOOD", "GOOD"]
    assert "HARMFUL" not in [step.label.value for step in found]


def test_something_destructive_is_wrong_on_the_way_and_an_unknown_end_or_query_is_unjudged() -> None:
    tab = WORKSHOP.pages["notes"].elements["machines"].model_copy(update={"marks": (Mark.DESTRUCTIVE,)})
    walk = on_machines().tap("Like 1", machines(1))
    found = vote(walk.end(query("machines-like-1")), walk.trees, workshop_with(elements={"machines": tab}))
    assert not found.correct and "destructive" in found.reason and found.first_error_step == 0
    asked, walk = query("machines-set-filter", "Lathe"), on_machines().write("Lathe", machines(text="Lathe"))
    for graph, told in (
        (workshop_with(recognise=Recogniser()), "does not know"),
        (WORKSHOP.model_copy(update={"app": "other"}), "not those of an annotated app"),
    ):
        with pytest.raises(JudgeFailure, match=told):
            vote(walk.end(asked), walk.trees, graph)


SHED = graph(
    "shed",
    "home",
    home={
        "elements": {name: name for name in ("list", "index", "about")},
        "ways": {"list": "list", "index": "index", "about": "about"},
    },
    index={"elements": {"all": "all"}, "ways": {"all": "list"}},
    about={"elements": {name: name for name in ("back", "index")}, "ways": {"back": "home", "index": "index"}},
    list={
        "slots": {"item": {"kind": "list", "target": "item-{value}", "name": "the item", "values": MACHINES}},
        "transitions": [{"by": "item", "to": "item", "shows": [{"role": "heading", "text": "{item}"}]}],
    },
    item={"slots": {"note": note_field("oil", "grease"), "dark": DARK}, "transitions": [adds_note("item", "text")]},
)


def screen(title: str, *buttons: str) -> tuple[UIElement, ...]:
    rows = [element("button", each, 1 + at, PRESS, "", each) for at, each in enumerate(buttons)]
    return element("heading", title, 0), *rows


HOME, INDEX, ABOUT = screen("Home", "list", "index", "about"), screen("Index", "all"), screen("About", "back", "index")
LIST = (
    element("heading", "List", 0),
    *(element("list_item", each, 1 + at, PRESS, "", f"item-{each}") for at, each in enumerate(MACHINES)),
)


def item(name: str, note: str = "", *added: str, dark: bool = False) -> tuple[UIElement, ...]:
    field = element("text_field", "Note", 1, ("clickable", "editable", "focused"), note, "note")
    texts = [element("text", each, 4 + at) for at, each in enumerate(added)]
    return element("heading", "Item", 0), field, dark_box(2, dark), element("heading", name, 3), *texts


def labels(walk: Walk, status: str | None = None) -> list[str]:
    """The labels of a walk that is asked to write the note "oil" on the lathe."""
    samples = [each for group in samples_by_task(SHED, 0).values() for each in group]
    values = {"Lathe", "oil"}
    sample = next(e for e in samples if len(e.settings) == 2 and {setting.value for setting in e.settings} == values)
    episode = walk.end(drafted(RouteGoal(sample), ORIGIN), status)
    judged = asyncio.run(StepCriticByGraph({SHED.app: SHED}).judge(episode, walk.trees))
    return [step.label.value.lower() for step in judged]


def at_home() -> Walk:
    return Walk(HOME, Trees())


def inside(name: str) -> Walk:
    return at_home().tap("list", LIST).tap(name, item(name))


def test_steps_astray_are_harmful_and_ways_back_other_routes_and_corrections_are_good() -> None:
    assert labels(inside("Mill").do(BACK, LIST).tap("Lathe", item("Lathe"))) == ["good", "harmful", "good", "good"]
    loop = at_home().tap("about", ABOUT).tap("back", HOME).tap("list", LIST).do(BACK, HOME).tap("list", LIST)
    assert labels(loop) == ["harmful", "good", "good", "harmful", "good"]
    walk = at_home().tap("index", INDEX).tap("all", LIST).tap("Lathe", item("Lathe"))
    assert labels(walk) == ["neutral", "good", "good"]
    walk = at_home().tap("about", ABOUT).tap("index", INDEX).tap("all", LIST)
    assert labels(walk) == ["harmful", "good", "good"]
    wrong = inside("Lathe").do(TypeText(text="rust"), item("Lathe", "rust"))
    sent = wrong.do(TypeText(text="oil", clear=True), item("Lathe", "oil")).do(ENTER, item("Lathe", "", "oil"))
    assert labels(sent, "success") == ["good", "good", "harmful", "good", "good", "good"]
    walk = inside("Lathe").do(TypeText(text="rust", enter=True), item("Lathe", "", "rust"))
    walk = walk.tap("Dark", item("Lathe", "", "rust", dark=True)).tap("Dark", item("Lathe", "", "rust"))
    assert labels(walk, "success")[2:] == ["harmful", "harmful", "good", "harmful"]
    assert labels(inside("Lathe"), "success") == ["good", "good", "harmful"]
    done = inside("Mill").do(TypeText(text="oil", enter=True), item("Mill", "", "oil"))
    assert labels(done, "success") == ["good", "harmful", "harmful", "harmful"]


CLOCK = graph_of_app(shared_world(()).apps["clock"])
SNOOZE, CITY = query("options-set-snooze", "5 minutes", CLOCK), query("city-cities", "Vienna", CLOCK)
OPENED = ["launcher/clock", "clock.home/options"]
ADDED = ["launcher/clock", "clock.home/world", "clock.world/cities/Vienna"]


async def in_clock(asked: Query, *script: str, most: int = 4) -> FinishedAttempt:
    world, agent = SimulatedEnvironment(shared_world(()), asked.platform), ScriptedAgent(script, asked.platform)
    limits = Limits(prober=GraphProber({CLOCK.app: CLOCK}, most))
    made = await run_episode(Attempt(asked, Purpose.TRAIN, 0, 0), agent, world, limits, ORIGIN)
    added = world.device().running_app("clock").store.lists["cities_shown"].items
    assert bool(added) is (ADDED[-1] in script), "a probe adds nothing"
    return made


async def voted(made: FinishedAttempt, graph: AppGraph = CLOCK) -> Vote:
    screens, graphs = ObservedScreens(made.screens), {graph.app: graph}
    steps = await StepCriticByGraph(graphs).judge(made.episode, screens)
    return await ProbeChannel(graphs).judge(made.episode, screens, steps)


@pytest.mark.parametrize("correct", [False, True])
async def test_a_claim_is_checked_where_its_effect_must_show(correct: bool) -> None:
    script = [*OPENED, *(["clock.options/snooze/5 minutes"] if correct else []), "back"]
    made = await in_clock(SNOOZE, *script, "finish")
    vote, probed = await voted(made), made.episode.trajectory.probe_screens
    assert vote.correct is correct and vote.first_error_step == (None if correct else len(OPENED))
    assert probed and set(probed) <= made.screens.keys()
    assert len(made.episode.steps) == made.episode.trajectory.steps == len(script) + 1, "no look is a step"
    cut_short = SNOOZE.model_copy(update={"max_steps": len(script)})
    assert not (await voted(await in_clock(cut_short, *script))).correct, "it claims nothing"
    with pytest.raises(JudgeFailure, match="reported failure"):
        await voted(await in_clock(SNOOZE, *script, "give up"))
    bare = made.episode.trajectory.model_copy(update={"probe_screens": None})
    with pytest.raises(JudgeFailure, match="no probe"):
        await voted(replace(made, episode=made.episode.model_copy(update={"trajectory": bare})))


@pytest.mark.parametrize(("asked", "most", "lost"), [(SNOOZE, 0, "snooze"), (SNOOZE, 1, "snooze"), (CITY, 9, "Added")])
async def test_what_cannot_be_seen_in_time_or_without_a_change_is_unjudged(asked: Query, most: int, lost: str) -> None:
    with pytest.raises(JudgeFailure, match=f"could not see .*{lost}"):
        await voted(await in_clock(asked, "finish", most=most))
    assert (await voted(await in_clock(CITY, *ADDED, "finish"))).correct, "it stands on the last screen"


SHOWN = [{"id": "quiet", "text": text} for text in ("Is quiet", "Is loud")]
QUIET = {"by": "quiet", "to": "sound", "does": "Makes the phone quiet.", "shows": SHOWN[:1], "lacks": SHOWN[1:]}
PAGES: dict[str, Any] = {
    "home": {"elements": {"sound": "go-sound"}, "ways": {"sound": "sound"}},
    "sound": {"elements": {"home": "go-home", "quiet": "quiet"}, "ways": {"home": "home"}, "transitions": [QUIET]},
}


@pytest.mark.browser
def test_an_application_with_a_state_api_is_looked_at_on_its_pages() -> None:
    scripts = {"quiet": ["go-sound", "quiet", "go-home", "finish"], "loud": ["go-sound", "go-home", "finish"]}
    agents = {name: ScriptedAgent(script, Platform.WEB) for name, script in scripts.items()}
    with serving(PHONE) as served:
        start = {"url": f"{served.url}/", "viewport": [640, 480]}
        app = graph("phone", "home", **deepcopy(PAGES)).model_copy(update={"start_state": start})
        (sample,) = samples_by_task(app, 0)["phone.sound-quiet"]
        goal = json.dumps({"changes": [{"path": "quiet", "to": True}]})
        asked, limits = drafted(RouteGoal(sample), ORIGIN), Limits(prober=GraphProber({app.app: app}, 4))
        wanted = [asked.model_copy(update={"query_id": name, "goal": goal}) for name in agents]
        made = asyncio.run(rolled_out(wanted, lambda query: agents[query.query_id], StateApiFactory(), limits))
        rewards = {each.episode.query.query_id: each.episode.trajectory.reward for each in made}
        assert rewards == {"quiet": 1.0, "loud": 0.0}
        votes = {each.episode.query.query_id: asyncio.run(voted(each, app)).correct for each in made}
        assert votes == {"quiet": True, "loud": False}
        states = [each["current"]["quiet"] for each in served.sessions.values() if "quiet" in each["current"]]
        assert sorted(states) == [False, True], "a probe changes nothing"
