import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stages.models.scripted import ScriptedModel, replies, request
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.record import Record
from trajmill.stages.models.base import Completion
from trajmill.stages.models.prompts import AnswerFailure, ask, ask_several, parse_answer


class Verdict(Record):
    correct: bool
    reason: str
    steps: tuple[int, ...] = ()


GOOD = '{"correct": true, "reason": "it is", "steps": [1, 2]}'
VERDICT = Verdict(correct=True, reason="it is", steps=(1, 2))


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Sure, {{here}} it is:\n```\n{GOOD}```\nAnything else?",
        f'<think>{{"correct": false, "reason": "at first"}}</think>{GOOD}',
        f'A set {{"a"}} and {GOOD}',
        f"{GOOD} I repeat: {GOOD}",
        f'{{"correct": "perhaps"}} no: {GOOD}',
    ],
)
def test_an_answer_is_found_inside_other_text(text: str) -> None:
    assert parse_answer(text, Verdict) == VERDICT


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no JSON object"),
        ("It is correct.", "no JSON object"),
        (GOOD[:-1], "no JSON object"),
        (f'{{"answers": [{GOOD}, {{"correct": tr', "no JSON object"),
        (f"<think>{GOOD}", "no JSON object"),
        ('{"correct": true}', "reason: Field required"),
        (f'{{"answer": {GOOD}}}', "correct: Field required"),
        ('{"correct": true, "reason": "", "sure": 1}', "sure: Extra inputs"),
        (f'{GOOD} or {{"correct": false, "reason": "it is not"}}', "2 different answers"),
        ('{"correct": true, "reason": "", "steps": [NaN]}', "no JSON object"),
    ],
)
def test_any_other_reply_is_an_invalid_answer(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_answer(text, Verdict)


def test_texts_of_an_answer_can_be_stored_and_may_have_line_breaks() -> None:
    assert parse_answer('{"correct": true, "reason": "a\\u0000b\\ud800c"}', Verdict).reason == "a\ufffdb\ufffdc"
    assert parse_answer(GOOD.replace("it is", "it\nis"), Verdict).reason == "it\nis"


async def test_a_refused_reply_is_shown_with_its_error_and_asked_for_again_with_another_seed() -> None:
    model, other = (replies("no idea", '{"correct": true}', GOOD) for _ in range(2))
    assert await ask(model, request(seed=5), Verdict) == await ask(other, request(seed=5), Verdict) == VERDICT
    assert model.asked == other.asked, "equal questions are asked again equally"
    first, second, third = model.asked
    assert json.loads(first.answer_schema) == Verdict.model_json_schema()
    assert len({each.seed for each in model.asked}) == 3
    assert [message.role for message in third.messages] == ["user", "assistant", "user"]
    assert third.messages[0] == first.messages[0] == second.messages[0]
    assert third.messages[1].parts == ('{"correct": true}',)
    assert "reason: Field required" in str(third.messages[2].parts[0])


async def test_after_the_last_try_it_is_a_failure_of_one_line_and_a_silent_model_is_asked_once() -> None:
    model = replies("a", "b", Completion('{"correct":\ntrue, "rea', 7, 16, "length"))
    with pytest.raises(AnswerFailure) as failure:
        await ask(model, request(), Verdict)
    assert failure.value.failure_class is FailureClass.MODEL
    told = str(failure.value)
    assert "\n" not in told and "cut off after 16 tokens" in told
    assert "critic.text: no valid answer in 3 tries" in told and len(model.asked) == 3
    silent = replies(ModelFailure("no route"))
    with pytest.raises(ModelFailure, match="no route") as failed:
        await ask(silent, request(), Verdict)
    assert not isinstance(failed.value, AnswerFailure) and len(silent.asked) == 1


hostile = st.one_of(
    st.text(st.characters()),
    st.text(st.sampled_from('{}[]":,\\ \n0eNtrue')),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["correct", "reason", "steps"]), inner),
    ).map(json.dumps),
)


@given(hostile, st.sampled_from(["stop", "length"]))
def test_no_text_raises_anything_but_an_answer_failure(text: str, finish: str) -> None:
    model = ScriptedModel(lambda _: Completion(text, 1, 1, finish))
    try:
        assert isinstance(asyncio.run(ask(model, request(), Verdict, tries=2)), Verdict)
    except AnswerFailure as failure:
        assert "\n" not in str(failure)
        str(failure).encode()


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 200_000, '{"a' * 200_000, "{}" * 200_000, '{"steps":' + "[" * 200_000, f'{{"steps": [{"9" * 5000}]}}'],
    ids=["nested", "unterminated", "many", "deep", "long number"],
)
def test_a_large_malformed_reply_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_answer(text, Verdict)


async def several(
    samples: int, *texts: str | Completion | ModelFailure
) -> tuple[ScriptedModel, list[Verdict | ModelFailure]]:
    model = replies(*texts)
    asked = replace(request(), n=samples, seed=40, draws=tuple(range(10, 10 + samples)))
    return model, await ask_several(model, asked, Verdict)


def answers(first: str, *others: str) -> Completion:
    return Completion(first, 7, 3 * (1 + len(others)), "length", others)


async def test_several_records_are_one_request_and_what_is_invalid_or_missing_is_asked_for_or_told_alone() -> None:
    other = VERDICT.model_copy(update={"correct": False})
    model, found = await several(3, answers(GOOD, GOOD.replace("true", "false"), GOOD))
    assert found == [VERDICT, other, VERDICT]
    (asked,) = model.asked
    assert (asked.n, asked.seed, asked.draws) == (3, 40, (10, 11, 12))
    model, found = await several(3, answers(GOOD, "perhaps", GOOD), GOOD)
    assert found == [VERDICT] * 3
    _, again = model.asked
    assert (again.n, again.draws) == (1, (11,)) and again.seed not in (40, 41, 42)
    assert again.messages[1].parts == ("perhaps",)
    assert "cut off" not in str(again.messages), "which of the samples was cut is not told"
    model, found = await several(3, answers(GOOD), GOOD, GOOD)
    assert found == [VERDICT] * 3
    assert [(asked.n, asked.seed, asked.draws) for asked in model.asked[1:]] == [(1, 41, (11,)), (1, 42, (12,))]
    assert all(len(asked.messages) == 1 for asked in model.asked)
    _, found = await several(3, answers("no", GOOD, "neither"), ModelFailure("gone"), "no", "no")
    assert found[1] == VERDICT
    assert str(found[0]) == "gone" and isinstance(found[2], AnswerFailure)
    with pytest.raises(ModelFailure, match="gone"):
        await several(2, ModelFailure("gone"))
