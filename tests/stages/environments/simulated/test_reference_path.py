import random
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.stages.environments.simulated.scripted import SeenTrees, annotated_query, scripted_episode
from tests.stages.environments.simulated.worlds import (
    NO_FAULTS,
    everything,
    paths_of,
    query_of,
    some_values,
    task_of,
    task_query,
    walk,
)
from trajmill.schemas.actions import Click, SystemButton, Terminate
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates
from trajmill.stages.environments.simulated.app_files.app_spec import ListChange, Scalar
from trajmill.stages.environments.simulated.app_files.references import shown
from trajmill.stages.environments.simulated.distance import GoalDistance, SimulatedDistances
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import (
    Walker,
    WalkPosition,
    goal_json,
    resolve_slots,
    start_state_json,
)
from trajmill.stages.environments.simulated.world import TaskGraph, shared_world

WORLD = everything()
GARDEN = task_of(WORLD, "garden.water")
TO_BASIL = task_query(GARDEN, next(paths_of(GARDEN)), {"plant": "Basil"})


def environment(platform: Platform = Platform.PHONE, faults: FaultRates = NO_FAULTS) -> SimulatedEnvironment:
    return SimulatedEnvironment(WORLD, platform, faults)


def test_values_may_be_given_as_the_screen_shows_them_and_wrong_ones_are_bad_input() -> None:
    typed: dict[str, Scalar] = {"plant": "Basil", "amount": 3, "feed": True}
    shown: dict[str, Scalar] = {"plant": "Basil", "amount": "3", "feed": "on"}
    assert resolve_slots(GARDEN, shown) == typed
    assert goal_json(GARDEN, shown) == goal_json(GARDEN, typed)
    expected = '{"garden.waterings": {"append": {"amount": 3, "feed": true, "memo": "", "name": "Basil"}}}'
    assert goal_json(GARDEN, typed) == expected
    assert start_state_json(GARDEN, typed) == "{}"
    basil: dict[str, Scalar] = {"plant": "Basil"}
    for wrong, message in (({}, "needs a value"), (basil | {"pot": 1}, "no slot"), (basil | {"amount": 77}, "offer")):
        with pytest.raises(BadInputError, match=message):
            resolve_slots(GARDEN, wrong)


@pytest.mark.parametrize("seed", range(2))
def test_a_walk_presses_elsewhere_in_another_layout(seed: int) -> None:
    across = {False: set[int](), True: set[int]()}
    for layouts, places in across.items():
        env = SimulatedEnvironment(WORLD, Platform.PHONE, NO_FAULTS, DevicesSpec(layouts=layouts))
        pressed = (action for action in walk(env, TO_BASIL, seed).actions if isinstance(action, Click))
        places.update(action.x for action in pressed)
        assert env.score_now() == 1.0
    middle = Size(720, 1280).width // 2
    assert middle in across[False] and (middle in across[True]) == (seed == 0), "the first layout is the usual one"


def test_a_walk_survives_slow_pages_and_popups() -> None:
    for seed in range(6):
        env = environment(faults=FaultRates(slow=0.4, popup=0.5))
        assert walk(env, TO_BASIL, seed).actions[-1] == Terminate(status="success")
        assert env.score_now() == 1.0


def test_a_press_that_is_lost_or_leads_elsewhere_is_done_again() -> None:
    for instead in (None, SystemButton(button="Home")):
        env, walker, position = environment(), Walker(TO_BASIL.path, Platform.PHONE), WalkPosition()
        seen = env.reset_now(TO_BASIL, 0)
        for number in range(7):
            action, position = walker.next_action(seen, position)
            if number == 1:
                seen = env.step_now(instead) if instead else seen
            elif not isinstance(action, Terminate):
                seen = env.step_now(action)
        assert env.score_now() == 1.0


def test_a_target_that_does_not_exist_ends_in_failure() -> None:
    missing = TO_BASIL.path[1].model_copy(update={"target": f"{TO_BASIL.path[1].page}/plants/None"})
    assert walk(environment(), query_of(path=(TO_BASIL.path[0], missing)), 0).actions[-1] == Terminate(status="failure")


BUILTIN = shared_world(())
FOLDERS = ("files.home", "files.folder", "files.actions", "files.delete", "files.deleted")
ROOF = annotated_query(task_of(BUILTIN, "files.delete"), FOLDERS, {"file": "roof.odt"}, "delete the file roof.odt")


def distances(query: Query, *script: str) -> list[int | None]:
    found = SimulatedDistances(BUILTIN, NO_FAULTS, DevicesSpec())(scripted_episode(BUILTIN, query, script, SeenTrees()))
    assert found is not None
    return [*found]


@pytest.mark.slow
@pytest.mark.parametrize("task", BUILTIN.tasks[::14], ids=lambda task: task.name)
def test_no_step_of_an_annotated_path_leads_away_from_the_goal(task: TaskGraph) -> None:
    chance = random.Random(task.name)
    values = {slot.spec.name: chance.choice(slot.values) for slot in task.slots if slot.values}
    query = annotated_query(task, next(paths_of(task)), values, task.spec.description)
    measure, device = GoalDistance(BUILTIN, query), SimulatedEnvironment(BUILTIN, task.platform, NO_FAULTS)
    observation, position = device.reset_now(query, 3), WalkPosition()
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
    script = ["launcher/files", "files.home/folders/Documents", "back", "down", "files.home/folders/Projects"]
    script += ["hold files.folder/files/roof.odt", "files.actions/delete", "files.delete/delete", "finish"]
    assert distances(ROOF, *script) == [5, 4, 5, 4, 4, 3, 2, 1, 0, 0]
    first, *others = distances(ROOF, "launcher/files", "home", "launcher/files", "home", "finish")
    assert first is not None and others == [first - 1, first, first - 1, first, first]


def test_a_value_must_be_read_in_the_other_app_first() -> None:
    pages = ("mail.inbox", "mail.mail", "wallet.home", "wallet.voucher", "wallet.redeemed")
    values: dict[str, Scalar] = {"mail": "Welcome gift", "code": "FJORD7"}
    instruction = "redeem the code from the mail Welcome gift in Wallet"
    query = annotated_query(task_of(BUILTIN, "from_mail.redeem"), pages, values, instruction)
    reading = ["launcher/mail", "down", "down", "mail.inbox/mails/Welcome gift"]
    assert distances(query, *reading, "home", "launcher/wallet", "finish") == [8, 7, 7, 7, 6, 5, 4, 4]
    assert distances(query, "launcher/wallet", "home", *reading, "finish") == [8, 7, 8, 7, 7, 7, 6, 6]


def test_an_episode_of_other_devices_is_not_measured() -> None:
    episode = scripted_episode(BUILTIN, ROOF, ["launcher/files", "home", "finish"], SeenTrees())
    measure = SimulatedDistances(BUILTIN, NO_FAULTS, DevicesSpec())
    assert measure(episode) is not None
    moved = episode.trajectory.model_copy(update={"seed": episode.trajectory.seed + 1})
    assert measure(episode.model_copy(update={"trajectory": moved})) is None
    assert measure(episode.model_copy(update={"query": query_of(episode.query.platform)})) is None


EVERYDAY_WORDS = {"could", "you", "so", "were", "feel", "goes"}
UNSEEN_WORDS = 1
"""How many words a held-out phrasing may have that no training phrasing of any task has."""


def asked(task: TaskGraph, number: int) -> dict[str, Scalar]:
    """A value for every slot; another number gives other values."""
    return {slot.spec.name: slot.values[number % len(slot.values)] for slot in task.slots if slot.is_free}


def seen_on(observation: Observation) -> Iterator[str]:
    for element in observation.elements or ():
        marked = {"checked", "selected"} & {*element.states}
        if element.role in ("switch", "checkbox"):
            yield "on" if marked else "off"
        elif marked or element.role != "radio":
            yield f"{element.text} {element.value}"


def wanted(task: TaskGraph, values: dict[str, Scalar]) -> Iterator[str]:
    """The values that the goal checks, as a screen shows them; values that must stay empty are left out."""
    resolved = resolve_slots(task, values)
    for change in task.spec.goal.values():
        fields = {**(change.append or {}), **(change.update or {})} if isinstance(change, ListChange) else {"": change}
        for value in fields.values():
            bound = resolved[value[1:]] if isinstance(value, str) and value.startswith("$") else value
            if bound != "":
                yield shown(bound)


@pytest.mark.slow
@pytest.mark.parametrize("task", WORLD.tasks, ids=lambda task: task.name)
def test_every_path_reaches_its_goal_and_shows_what_that_checks(task: TaskGraph) -> None:
    plain = SimulatedEnvironment(WORLD, task.platform, NO_FAULTS)
    disturbed = SimulatedEnvironment(WORLD, task.platform, FaultRates(popup=0.3))
    for number in range(4 if task.name in {each.name for each in BUILTIN.tasks} else 0):
        plain.reset_now(task_query(task, next(paths_of(task)), asked(task, number)), 0)
        assert plain.score_now() == 0.0, "met before anything is done"
    for number, pages in enumerate(paths_of(task)):
        values = asked(task, number + len(task.name))
        walked = walk(plain, task_query(task, pages, values), number + len(task.name))
        seen = {text for each in walked.seen for text in seen_on(each)}
        assert walked.actions[-1] == Terminate(status="success") and plain.score_now() == 1.0
        for value in wanted(task, values):
            assert any(value in text for text in seen), f"`{value}` is never to be seen"
        query = task_query(task, pages, some_values(task, random.Random(number)))
        disturbed.reset_now(query, number)
        if disturbed.score_now() == 1.0:  # asks for what is already so: the writer of queries drops it
            continue
        assert walk(disturbed, query, number).actions[-1] == Terminate(status="success"), query.path
        assert disturbed.score_now() == 1.0, (query.goal, query.path)


def words_of(template: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", re.sub(r"\{\w+\}", " ", template.lower())))


def test_heldout_phrasings_are_new_but_use_known_words() -> None:
    known: set[str] = set(EVERYDAY_WORDS)
    for task in BUILTIN.tasks:
        for said in (*task.spec.phrasings, *(clause for some in task.spec.clauses.values() for clause in some)):
            known |= words_of(said)
    for task in BUILTIN.tasks:
        assert len(task.spec.phrasings) >= 6 and len(task.spec.heldout_phrasings) >= 3, task.name
        for template in task.spec.heldout_phrasings:
            assert template not in task.spec.phrasings
            assert len(words_of(template) - known) <= UNSEEN_WORDS, f"{task.name}: {words_of(template) - known}"
