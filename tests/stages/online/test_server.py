import json
import time
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.records import record
from tests.stages.environments.processes import eventually
from tests.stages.online.toy_server import DONE, PRESS, ToyServer, ToySpec, in_words, toy_server
from tests.stages.rollout.toy import ORIGIN, ToyEnvironment
from trajmill.schemas.actions import Click, Terminate
from trajmill.schemas.dialects.families import FAMILIES
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose, StopReason
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.environments.openenv.client import EnvironmentClient, ServerBusy, session_address
from trajmill.stages.environments.openenv.trl import TrlPhone
from trajmill.stages.environments.openenv.wire import MOST_REPLY_CHARACTERS, WireAction
from trajmill.stages.rollout.base import FinishedAttempt

pytestmark = pytest.mark.slow

CLICK = WireAction(action={"kind": "click", "x": 5, "y": 5})


def reply(text: str) -> WireAction:
    return WireAction(reply=text)


def test_an_episode_in_the_words_of_a_model_is_rewarded_and_recorded_before_the_reward_is_told() -> None:
    with toy_server() as server, EnvironmentClient(server.url, policy="mine") as client:
        first = client.reset("press", seed=3)
        assert (first.screen.instruction, first.done, first.reward) == ("Press Go", False, None)
        assert [element.text for element in first.screen.elements or []] == ["Go"]
        told = [(message.role, message.screen_id) for message in first.screen.messages]
        assert told == [("system", None), ("user", "before")]
        second = client.step(reply(PRESS).model_copy(update={"token_ids": [7, 8], "logprobs": [-0.5, -0.25]}))
        assert (second.screen.screen_id, second.screen.step_index) == ("after", 1)
        last = client.step(reply(DONE))
        assert (last.reward, last.done, last.screen.void) == (1.0, True, False)
        made, *_ = server.recorded
    trajectory, steps = made.episode.trajectory, made.episode.steps
    assert (trajectory.purpose, trajectory.agent, trajectory.model_version) == (Purpose.ONLINE, "online", "mine")
    assert (trajectory.seed, trajectory.attempt, trajectory.reward) == (3, 0, 1.0)
    assert [step.action_kind for step in steps] == ["click", "terminate"]
    assert steps[0].raw_response == PRESS
    assert (steps[0].reply_token_ids, steps[0].reply_logprobs) == ((7, 8), (-0.5, -0.25))
    assert [call.response for call in made.episode.calls] == [PRESS, DONE]
    kept = {name: screen.screen.encode()[:4] for name, screen in made.screens.items()}
    assert kept == {"before": b"\x89PNG", "after": b"\x89PNG"}


def test_a_limit_ends_an_episode_without_success_and_equal_attempts_are_different_rows() -> None:
    with toy_server() as server, EnvironmentClient(server.url) as client:
        client.reset("press", seed=5)
        answers = [client.step(CLICK) for _ in range(4)]
        assert [(answer.done, answer.reward) for answer in answers] == [(False, None)] * 3 + [(True, 0.0)]
        client.reset("press", seed=5)
        client.step(CLICK)
        assert client.finish().reward == 0.0
    trajectories = [made.episode.trajectory for made in server.recorded]
    assert [each.stop_reason for each in trajectories] == [StopReason.STEP_LIMIT] * 2
    assert [(each.attempt, each.steps) for each in trajectories] == [(0, 4), (1, 1)]
    assert len({each.trajectory_id for each in trajectories}) == 2


@pytest.mark.parametrize(
    ("asked", "mistake"),
    [
        (reply("I would press it."), "no action: no <tool_call> in the reply"),
        (
            reply('Action: click(start_box="(5,5)")'),
            "no action: the reply is written as ui-tars writes, not as gui-owl",
        ),
        (reply("x" * (MOST_REPLY_CHARACTERS + 1)), "no action: no <tool_call> in the reply"),
        (reply("\x00\u2028<tool_call>" + "[" * 5000), "no action: the tool call is not JSON"),
        (WireAction(action={"kind": "clik"}), "no typed action: the whole: tag 'clik' found using 'kind'"),
        (WireAction(action={"kind": "click", "x": 5}), "no typed action: click.y is missing"),
        (WireAction(action={"kind": "click", "x": 20, "y": 5}), "x: 20 is not on a screen of 20 x 20 pixels"),
        (WireAction(action={"kind": "scroll", "clicks": 10**30}), "no typed action: clicks: at most 100,000"),
    ],
)
def test_what_is_no_action_is_a_step_without_effect_that_says_why(
    busy_server: ToyServer, asked: WireAction, mistake: str
) -> None:
    with EnvironmentClient(busy_server.url) as client:
        client.reset("press")
        answer = client.step(asked)
        assert mistake in answer.screen.error
        assert "\n" not in answer.screen.error
        assert (answer.done, answer.screen.screen_id) == (False, "before")
        assert client.step(CLICK).screen.error == ""
        client.finish()
    assert busy_server.recorded[-1].episode.steps[0].action_kind == "unparsed"


@pytest.fixture(scope="module")
def busy_server() -> Iterator[ToyServer]:
    with toy_server(slots=50) as server:
        yield server


def test_an_environment_that_fails_is_void_and_replaced_and_one_that_cannot_be_started_one_line() -> None:
    broken = ToyEnvironment(raised=EnvironmentFailure("the phone is gone"))
    with toy_server(ToySpec.of(broken)) as server, EnvironmentClient(server.url) as client:
        client.reset("press")
        void = client.step(CLICK)
        assert (void.done, void.reward, void.screen.void) == (True, None, True)
        assert void.screen.error == "the phone is gone"
        client.reset("press")
        client.step(CLICK)
        assert client.step(reply(DONE)).reward == 1.0
    failed, finished = (made.episode.trajectory for made in server.recorded)
    assert (failed.status, failed.reward, failed.failure_class) == ("failed", None, FailureClass.ENVIRONMENT)
    assert finished.reward == 1.0
    with (
        toy_server(ToySpec.of(refuses=True)) as server,
        EnvironmentClient(server.url) as client,
        pytest.raises(EnvironmentFailure, match="no phone is free"),
    ):
        client.reset("press")
    (made,) = server.recorded
    assert made.failure is not None
    assert (made.failure.failure_class, made.failure.attempts) == (FailureClass.SETUP, 3)


def test_a_client_that_leaves_or_resets_leaves_a_void_episode() -> None:
    with toy_server() as server:
        client = EnvironmentClient(server.url)
        client.reset("press")
        client.step(CLICK)
        client.reset("press_again")
        client.step(CLICK)
        client.close()
        eventually(lambda: len(server.recorded) == 2)
        with EnvironmentClient(server.url) as other:
            other.reset("press")
    failures = [made.failure.message for made in server.recorded if made.failure]
    assert failures == [
        "the trainer began another episode before the end of this one",
        "the trainer went away before the end of the episode",
    ]
    assert {made.episode.trajectory.reward for made in server.recorded} == {None}


def test_a_silent_trainer_gives_its_environment_back_and_may_begin_anew() -> None:
    with toy_server(idle_seconds=0.2) as server, EnvironmentClient(server.url) as client:
        client.reset("press")
        client.step(CLICK)
        eventually(lambda: len(server.recorded) == 1)
        with pytest.raises(EnvironmentFailure, match=r"no episode is under way|connection was lost"):
            client.step(CLICK)
    assert server.recorded[0].episode.trajectory.failure_message == "the trainer was silent for 0.2 s"
    with toy_server(slots=1, idle_seconds=0.3) as server, EnvironmentClient(server.url) as client:
        client.reset("press")
        assert client.finish().reward == 0.0
        time.sleep(1.0)
        client.reset("press")
        assert client.finish().reward == 0.0


def test_only_served_queries_can_be_asked_for_and_wrong_requests_keep_the_session_open() -> None:
    with toy_server() as server, EnvironmentClient(server.url) as client:
        with pytest.raises(EnvironmentFailure, match="no query has the id 'pres'"):
            client.reset("pres")
        with pytest.raises(EnvironmentFailure, match="held_out is of split heldout_slots, which is not served"):
            client.reset("held_out")
        assert {client.reset(seed=seed).screen.query_id for seed in range(8)} == {"press", "press_again"}
    with toy_server(splits=(Split.HELDOUT_SLOTS,)) as server, EnvironmentClient(server.url) as client:
        assert client.reset("held_out").screen.query_id == "held_out"
    with toy_server() as server, connect(session_address(server.url), proxy=None) as raw:
        for kind, data, said in (
            ("step", {"reply": "x"}, "reset first"),
            ("reset", {"query_id": 5}, "query_id should be text in quotes"),
            ("reset", {"seed": -1}, "seed should be at least 0"),
            ("reset", {"policy": "\0"}, "policy should match"),
            ("reset", {"query_id": "press"}, "Press Go"),
            ("step", {"reply": "x", "stop": True}, "one of reply"),
        ):
            raw.send(json.dumps({"type": kind, "data": data}))
            assert said in str(raw.recv(timeout=60))


def test_an_episode_is_played_in_the_words_of_a_family() -> None:
    family = FAMILIES["ui-tars"]
    with toy_server(family=family) as server, EnvironmentClient(server.url) as client:
        assert client.reset("press").screen.messages
        pressed = client.step(reply(in_words(Click(x=5, y=5), family)))
        assert (pressed.screen.error, pressed.screen.screen_id) == ("", "after")
        assert client.step(reply(in_words(Terminate(status="success"), family))).reward == 1.0
    click = server.recorded[0].episode.steps[0].action
    assert click is not None and abs(json.loads(click)["x"] - 5) <= 1


def test_a_full_server_says_so_until_trl_has_the_reward_of_an_episode() -> None:
    with toy_server(slots=1, idle_seconds=1000.0) as server, EnvironmentClient(server.url) as second:
        phone = TrlPhone(server.url)
        shown, task = phone.reset("press")
        assert (shown["image"].size, task["text"]) == ((56, 56), "Press Go")  # not (20, 20): the family's smallest
        with pytest.raises(ServerBusy, match="1/1 sessions active"):
            second.reset("press")
        assert phone.get_reward() == 0.0

        def has_room() -> bool:
            with EnvironmentClient(server.url) as third:
                try:
                    third.reset("press")
                except EnvironmentFailure:
                    return False
                return True

        eventually(has_room)


def test_a_token_keeps_others_out_and_pages_of_other_sites_are_never_let_in() -> None:
    with toy_server(token="secret") as server:
        with EnvironmentClient(server.url, token="secret") as client:
            client.reset("press")
        for wrong in ("", "other"):
            with pytest.raises(EnvironmentFailure, match=r"cannot be reached: .*403"):
                EnvironmentClient(server.url, token=wrong).reset("press")
        assert httpx.get(f"{server.url}/schema").status_code == 401
        assert httpx.get(f"{server.url}/health").status_code == 200
    with toy_server() as server:
        assert httpx.get(f"{server.url}/schema", headers={"Origin": "http://evil.example"}).status_code == 401
        assert httpx.get(f"{server.url}/schema", headers={"Origin": server.url}).status_code == 200


def test_the_reward_can_be_what_the_judge_says() -> None:
    async def judge(made: FinishedAttempt) -> FinishedAttempt:
        trajectory = made.episode.trajectory
        named = {"trajectory_id": trajectory.trajectory_id, **ORIGIN.common("test")}
        judgement = record(Judgement, correct=trajectory.steps == 1, **named)
        return replace(made, episode=made.episode.model_copy(update={"judgement": judgement}))

    with toy_server(judge=judge) as server, EnvironmentClient(server.url) as client:
        client.reset("press")
        assert client.step(reply(DONE)).reward == 1.0
        client.reset("press")
        client.step(CLICK)
        assert client.step(reply(DONE)).reward == 0.0
    assert [made.episode.trajectory.reward for made in server.recorded] == [0.0, 1.0]


def test_the_task_list_names_the_served_queries_without_goals_and_paths() -> None:
    with toy_server() as server:
        assert httpx.get(f"{server.url}/trajmill/splits").json() == [{"name": "train", "type": "train"}]
        asked = [("tasks", {}), ("task", {"index": 0}), ("task_range", {"start": 0, "stop": 2})]
        answers = [
            httpx.post(f"{server.url}/trajmill/{name}", json={"split": "train", **more}).raise_for_status()
            for name, more in asked
        ]
        assert [task["query_id"] for task in answers[0].json()["tasks"]] == ["press", "press_again"]
        counted = httpx.post(f"{server.url}/trajmill/num_tasks", json={"split": "heldout_slots"})
        assert counted.json() == {"num_tasks": 0}
    for answer in answers:
        assert "Press Go" in answer.text
        assert not any(f'"{name}"' in answer.text for name in ("goal", "path", "start_state", "slots", "pages"))


# A raw socket, because no client of ours sends such numbers.
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('"token_ids": [7, 8], "logprobs": [-0.5, NaN]', "finite"),
        ('"token_ids": [7], "logprobs": [-Infinity]', "finite"),
        ('"logprobs": [-1e300]', "greater than"),
        ('"logprobs": [0.5]', "less than"),
        ('"token_ids": [7, 8], "logprobs": [-0.5]', "1 log probabilities for 2 tokens"),
        ('"token_ids": [99999999999999999999]', "less than"),
        ('"token_ids": [-1]', "greater than"),
        ('"input_tokens": NaN', "finite"),
        ('"output_tokens": 1e30', "integer"),
    ],
)
def test_a_number_that_is_none_is_refused_and_no_more(busy_server: ToyServer, fields: str, said: str) -> None:
    address = session_address(busy_server.url)
    before = len(busy_server.recorded)
    with connect(address, proxy=None) as raw:

        def ask(message: str) -> str:
            raw.send(message)
            return str(raw.recv(timeout=60))

        ask('{"type": "reset", "data": {"query_id": "press"}}')
        answer = json.loads(ask(f'{{"type": "step", "data": {{"reply": "x", {fields}}}}}'))
        assert (answer["type"], answer["data"]["code"]) == ("error", "VALIDATION_ERROR")
        assert said in json.dumps(answer["data"]["errors"])
        click = '{"type": "step", "data": {"action": {"kind": "click", "x": 5, "y": 5}, "logprobs": [-0.5]}}'
        assert json.loads(ask(click))["data"]["observation"]["step_index"] == 1
        last = json.loads(ask('{"type": "step", "data": {"stop": true}}'))
        assert (last["data"]["done"], last["data"]["reward"]) == (True, 0.0)
    made = busy_server.recorded[-1]
    assert len(busy_server.recorded) == before + 1
    assert [step.action_kind for step in made.episode.steps] == ["click"]


def test_silent_sockets_lose_their_slots_and_a_trainer_at_work_keeps_its_own() -> None:
    with toy_server(slots=3, idle_seconds=2.0) as server:
        address = session_address(server.url)
        with (
            connect(address, proxy=None) as never,
            connect(address.replace("/ws", "/mcp"), proxy=None) as other,
            EnvironmentClient(server.url) as trainer,
        ):
            trainer.reset("press")
            for _ in range(3):
                time.sleep(0.8)
                trainer.step(CLICK)
            for silent in (never, other):
                with pytest.raises(ConnectionClosed, match="1001"):
                    silent.recv(timeout=60)
            with EnvironmentClient(server.url) as second, EnvironmentClient(server.url) as third:
                for client in (second, third):
                    client.reset("press")
                    assert client.finish().reward == 0.0


def test_openenv_itself_finds_nothing_wrong() -> None:
    from openenv.cli._validation import validate_running_environment

    with toy_server() as server:
        report = validate_running_environment(server.url)
    assert report["passed"], report
