"""Verdicts on hand-made episodes: correct ones, and one for each kind of mistake."""

from __future__ import annotations

import asyncio

import pytest

from tests.stages.critics.little_app import (
    ORIGIN,
    Trees,
    Walk,
    checkout,
    dish,
    food_query,
    history,
    launcher,
    menu,
    placed,
    right_walk,
)
from trajmill.schemas.actions import Swipe, SystemButton, Wait
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.query import PathStep, Query
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.judge import judge_episode

RECEIPT = ("1 x Margherita", "Size: Large", "Note: ring twice")


def judged(episode: Episode, trees: Trees) -> Episode:
    return asyncio.run(judge_episode(episode, annotated_judge(), trees, ORIGIN))


def votes(episode: Episode) -> dict[Channel, bool]:
    return {verdict.channel: verdict.correct for verdict in episode.trajectory_verdicts}


def labels(episode: Episode) -> list[str]:
    return [verdict.label.value for verdict in episode.step_verdicts]


def to_dish(trees: Trees) -> Walk:
    return Walk(launcher(), trees).tap("Food", menu()).tap("Margherita", dish())


def from_checkout(walk: Walk, *receipt: str) -> Walk:
    walk.tap("Note for the kitchen", checkout(focused=True)).write("ring twice", checkout("ring twice", focused=True))
    return walk.tap("Place order", placed(*(receipt or RECEIPT)))


def test_what_was_asked_is_correct_and_all_steps_are_good() -> None:
    trees = Trees()
    episode = judged(right_walk(trees).end(), trees)
    assert episode.judgement is not None and episode.judgement.correct and episode.judgement.agreed
    assert episode.judgement.rule == "consensus(text,multimodal)"
    assert set(labels(episode)) == {"GOOD"}
    assert episode.judgement.redundant_steps == () and episode.judgement.first_error_step is None


def test_idle_steps_are_redundant_but_no_error() -> None:
    trees = Trees()
    walk = to_dish(trees).stay(Wait()).tap("Large", dish(size="Large")).tap("Go to checkout", checkout())
    episode = judged(from_checkout(walk).end(), trees)
    assert episode.judgement is not None and episode.judgement.correct
    assert episode.judgement.redundant_steps == (2,)


def wrong_size(trees: Trees) -> Episode:
    walk = to_dish(trees).tap("Small", dish(size="Small")).tap("Go to checkout", checkout())
    return from_checkout(walk, "1 x Margherita", "Size: Small", "Note: ring twice").end()


def size_left_alone(trees: Trees) -> Episode:
    walk = to_dish(trees).tap("Go to checkout", checkout())
    return from_checkout(walk, "1 x Margherita", "Size: Medium", "Note: ring twice").end()


def extra_switch(trees: Trees) -> Episode:
    walk = to_dish(trees).tap("Large", dish(size="Large")).tap("Extra spicy", dish(size="Large", spicy=True))
    return from_checkout(walk.tap("Go to checkout", checkout())).end()


def two_instead_of_one(trees: Trees) -> Episode:
    walk = to_dish(trees).tap("Large", dish(size="Large")).tap("+", dish(size="Large", quantity=2))
    return from_checkout(walk.tap("Go to checkout", checkout()), "2 x Margherita", *RECEIPT[1:]).end()


def wrong_dish(trees: Trees) -> Episode:
    walk = Walk(launcher(), trees).tap("Food", menu()).tap("Diavola", dish("Diavola"))
    walk.tap("Large", dish("Diavola", "Large")).tap("Go to checkout", checkout())
    return from_checkout(walk, "1 x Diavola", *RECEIPT[1:]).end()


def right_dish_then_wrong_dish(trees: Trees) -> Episode:
    walk = to_dish(trees).tap("Large", dish(size="Large")).do(SystemButton(button="Back"), menu())
    walk.tap("Diavola", dish("Diavola", "Large")).tap("Go to checkout", checkout())
    return from_checkout(walk, "1 x Diavola", *RECEIPT[1:]).end()


def wrong_note(trees: Trees) -> Episode:
    walk = to_dish(trees).tap("Large", dish(size="Large")).tap("Go to checkout", checkout())
    walk.tap("Note for the kitchen", checkout(focused=True)).write("ring", checkout("ring", focused=True))
    return walk.tap("Place order", placed("1 x Margherita", "Size: Large", "Note: ring")).end()


def set_and_undone(trees: Trees) -> Episode:
    walk = to_dish(trees).tap("Large", dish(size="Large")).tap("Medium", dish()).tap("Go to checkout", checkout())
    return from_checkout(walk, "1 x Margherita", "Size: Medium", "Note: ring twice").end()


def not_sent_off(trees: Trees) -> Episode:
    walk = to_dish(trees).tap("Large", dish(size="Large")).tap("Go to checkout", checkout())
    walk.tap("Note for the kitchen", checkout(focused=True)).write("ring twice", checkout("ring twice", focused=True))
    return walk.end()


def sent_twice(trees: Trees) -> Episode:
    walk = right_walk(trees).do(SystemButton(button="Back"), checkout("ring twice"))
    return walk.tap("Place order", placed(*RECEIPT)).end()


def never_said_so(trees: Trees) -> Episode:
    return right_walk(trees).end(status=None)


def said_failure(trees: Trees) -> Episode:
    return right_walk(trees).end(status="failure")


def nothing_at_all(trees: Trees) -> Episode:
    return Walk(launcher(), trees).end()


def only_garbage(trees: Trees) -> Episode:
    return Walk(launcher(), trees).stay(None).stay(None).end(status=None)


WRONG = [
    wrong_size,
    size_left_alone,
    extra_switch,
    two_instead_of_one,
    wrong_dish,
    right_dish_then_wrong_dish,
    wrong_note,
    set_and_undone,
    not_sent_off,
    sent_twice,
    never_said_so,
    said_failure,
    nothing_at_all,
    only_garbage,
]


@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_each_channel_finds_every_kind_of_mistake(make: object) -> None:
    trees = Trees()
    assert callable(make)
    episode = judged(make(trees), trees)
    assert votes(episode) == {Channel.TEXT: False, Channel.MULTIMODAL: False}
    assert episode.judgement is not None and not episode.judgement.correct
    assert episode.judgement.first_error_step is not None


def test_a_change_that_is_taken_back_does_no_harm() -> None:
    trees = Trees()
    walk = to_dish(trees).tap("Extra spicy", dish(spicy=True)).tap("Extra spicy", dish())
    walk.tap("Large", dish(size="Large")).tap("Go to checkout", checkout())
    episode = judged(from_checkout(walk).end(), trees)
    assert episode.judgement is not None and episode.judgement.correct
    assert labels(episode)[2:4] == ["HARMFUL", "GOOD"]
    assert episode.judgement.redundant_steps == (2,)


def test_a_detour_does_no_harm() -> None:
    trees = Trees()
    walk = Walk(launcher(), trees).tap("Food", menu()).tap("Past orders", history())
    walk.do(SystemButton(button="Back"), menu()).tap("Margherita", dish()).tap("Large", dish(size="Large"))
    episode = judged(from_checkout(walk.tap("Go to checkout", checkout())).end(), trees)
    assert episode.judgement is not None and episode.judgement.correct
    assert labels(episode)[1:3] == ["HARMFUL", "GOOD"]


def test_labels_of_single_steps() -> None:
    trees = Trees()
    walk = to_dish(trees).stay(Wait()).stay(None).tap("Small", dish(size="Small")).tap("Large", dish(size="Large"))
    walk.tap("Medium", dish()).do(SystemButton(button="Back"), menu()).stay(Swipe(x=1, y=900, x2=1, y2=300))
    episode = judged(walk.end(), trees)
    assert labels(episode)[2:] == ["NEUTRAL", "HARMFUL", "HARMFUL", "GOOD", "HARMFUL", "HARMFUL", "NEUTRAL", "HARMFUL"]
    assert "no action" in episode.step_verdicts[3].analysis


def test_summaries_are_short() -> None:
    trees = Trees()
    long = "word " * 100
    walk = to_dish(trees).tap("Go to checkout", checkout(long)).tap("Place order", placed(long, long + "x"))
    for verdict in judged(walk.end(), trees).step_verdicts:
        assert 0 < len(verdict.summary.split()) <= 30
        assert verdict.analysis


@pytest.mark.parametrize("make", [lambda trees: right_walk(trees).end(), *WRONG])
def test_the_critics_never_read_goal_start_state_or_path(make: object) -> None:
    trees = Trees()
    assert callable(make)
    episode = make(trees)
    path = (PathStep(page="food.dish", operation="tap", target="food.dish/size/Small"),)
    hidden = food_query(goal='{"secret": true}', start_state='{"setup": {}}', path=path)
    assert isinstance(episode, Episode) and isinstance(hidden, Query)
    blanked = episode.model_copy(update={"query": food_query(goal="", start_state="", path=())})
    told = episode.model_copy(update={"query": hidden})
    one, other = judged(blanked, trees), judged(told, trees)
    assert one.step_verdicts == other.step_verdicts
    assert one.trajectory_verdicts == other.trajectory_verdicts
    assert one.judgement == other.judgement
