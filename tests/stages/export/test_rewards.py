"""The rewards of replies, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from trajmill.schemas.actions import Action, Answer, Click, Drag, Scroll, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import FAMILIES, family_named
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.rewards import action_rewards, ces_rewards, coda_rewards, compute_score, score_reply
from trajmill.stages.export.target import ReplyTarget

SCREEN = Size(1000, 2000)
BOX = Box(400, 900, 600, 1100)


def target(
    action: Action, box: Box | None = None, family: str = "qwen3-vl", platform: Platform = Platform.PHONE
) -> str:
    resized = family_named(family).budget.fit(SCREEN)
    made = ReplyTarget(family=family, platform=platform, action=action, box=box, screen=SCREEN, resized=resized)
    return made.model_dump_json()


def reply(action: Action, family: str = "qwen3-vl", platform: Platform = Platform.PHONE) -> str:
    chosen = family_named(family)
    return chosen.dialect(platform).render(Reply("So.", action, "Do it."), chosen.frame(SCREEN))


def ces(said: Action, wanted: Action, box: Box | None = None, platform: Platform = Platform.PHONE) -> float:
    (reward,) = ces_rewards([reply(said, platform=platform)], [target(wanted, box, platform=platform)])
    return round(reward, 6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_stored_action_earns_everything_in_every_family(family: str) -> None:
    wanted = Click(x=500, y=1000)
    said, held = reply(wanted, family), target(wanted, BOX, family)
    assert ces_rewards([said], [held]) == pytest.approx([1.0])
    assert action_rewards([said], [held]) == [1.0]
    assert coda_rewards([said], [held]) == pytest.approx([2.0], abs=0.002)


def test_ces_gives_a_tenth_for_the_format_and_a_fifth_of_the_rest_for_the_type() -> None:
    wanted = Click(x=500, y=1000)
    assert ces(Click(x=590, y=1090), wanted, BOX) == 1.0
    assert ces(Click(x=700, y=1000), wanted, BOX) == 0.28
    assert ces(TypeText(text="a"), wanted, BOX) == 0.1
    assert ces_rewards(["I click it."], [target(wanted, BOX)]) == [0.0]


def test_without_an_element_a_position_counts_within_14_hundredths_of_the_screen() -> None:
    wanted = Click(x=500, y=1000)
    assert ces(Click(x=630, y=1000), wanted) == 1.0
    assert ces(Click(x=650, y=1000), wanted) == 0.28


@pytest.mark.parametrize(
    ("said", "wanted", "reward"),
    [
        (TypeText(text="pad thai large"), TypeText(text="Pad Thai"), 1.0),
        (TypeText(text="pizza"), TypeText(text="Pad Thai"), 0.28),
        (Answer(text="42"), Answer(text="42"), 1.0),
        (Swipe(x=500, y=1500, x2=500, y2=500), Swipe(x=400, y=1400, x2=420, y2=1000), 1.0),
        (Swipe(x=500, y=500, x2=500, y2=1500), Swipe(x=400, y=1400, x2=420, y2=1000), 0.28),
        (SystemButton(button="Back"), SystemButton(button="Back"), 1.0),
        (SystemButton(button="Home"), SystemButton(button="Back"), 0.1),
        (Terminate(status="failure"), Terminate(status="success"), 0.1),
    ],
)
def test_other_parameters_count_by_their_words_and_directions(said: Action, wanted: Action, reward: float) -> None:
    assert ces(said, wanted) == reward


def test_desktop_actions_count_by_button_and_by_both_ends() -> None:
    wanted = Click(x=500, y=1000, button="right")
    assert ces(Click(x=500, y=1000), wanted, BOX, Platform.DESKTOP) == 0.1
    assert ces(Scroll(x=1, y=1, clicks=-5), Scroll(x=500, y=500, clicks=-2), None, Platform.DESKTOP) == 1.0
    held = target(Drag(x=500, y=1000, x2=500, y2=1800), BOX, "gui-owl", Platform.DESKTOP)
    near = reply(Drag(x=450, y=950, x2=520, y2=1790), "gui-owl", Platform.DESKTOP)
    far = reply(Drag(x=450, y=950, x2=520, y2=1000), "gui-owl", Platform.DESKTOP)
    assert action_rewards([near, far], [held, held]) == [1.0, 0.0]


def test_coda_adds_nearness_to_the_type() -> None:
    wanted = target(Click(x=500, y=1000))
    (reward,) = coda_rewards([reply(Click(x=570, y=1000))], [wanted])
    assert reward == pytest.approx(1.5, abs=0.005)
    assert coda_rewards([reply(TypeText(text="a"))], [wanted]) == [0.0]
    assert coda_rewards([reply(TypeText(text="pad"))], [target(TypeText(text="pad thai"))]) == pytest.approx(
        [1 + 2 / 3]
    )


def test_an_invalid_action_scores_less_than_a_wrong_one() -> None:
    wanted = target(Click(x=500, y=1000), BOX)
    assert action_rewards(["hello", reply(Click(x=1, y=1)), ""], [wanted] * 3) == [-0.5, 0.0, -0.5]


@pytest.mark.parametrize(
    "completion",
    [
        [{"role": "assistant", "content": reply(Click(x=500, y=1000))}],
        [{"role": "assistant", "content": [{"type": "text", "text": reply(Click(x=500, y=1000))}]}],
    ],
)
def test_trl_gives_messages_in_either_form(completion: Any) -> None:
    assert ces_rewards([completion], [target(Click(x=500, y=1000))], prompts=[None], round=[1]) == pytest.approx([1.0])


def test_verl_is_given_the_score_and_its_parts() -> None:
    wanted, said = target(Click(x=500, y=1000), BOX), reply(Click(x=500, y=1000))
    made = compute_score("trajmill/simulated", said, wanted, {"index": 0}, rule="action")
    assert made["score"] == 1.0 and made["reward_format"] == made["reward_parameters"] == 1.0
    with pytest.raises(ValueError, match="no reward rule 'cess'; there are ces, coda, action"):
        compute_score("trajmill/simulated", said, wanted, rule="cess")


@pytest.mark.parametrize("text", ["", "<tool_call>", "[" * 100_000, "\x00\ud800", '{"coordinate": [1e999, NaN]}'])
def test_no_text_raises(text: str) -> None:
    assert score_reply(text, target(Click(x=1, y=1))).format == 0.0
