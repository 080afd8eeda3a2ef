"""Structured answers: asks for a JSON object that follows a schema, finds it in the reply, checks it, asks again.

A server with guided decoding writes nothing else; a model without it wraps its answer in code fences and remarks. Both
end here: one JSON object that validates, or a failure. A reply with two different valid objects is no answer either: to
pick one of them would be to guess a verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.record import Record, content_id
from trajmill.schemas.storable import storable
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, Completion

A = TypeVar("A", bound=Record)

_OBJECT_START = re.compile(r'\{\s*["}]')
_MOST_STARTS = 200
"""Largest number of places in one reply that are tried as the start of an object; it bounds the time of a parse."""
_MOST_SHOWN = 4000
"""Characters of a refused reply that are sent back with the question."""
_MOST_ERRORS = 6
_MOST_QUOTED = 80


class AnswerFailure(ModelFailure):
    """The model answered, but never in the form it was asked for."""


async def ask(model: ChatModel, request: ChatRequest, answer: type[A], tries: int = 3) -> A:
    """Ask for a record.

    The record's JSON schema goes with the request as `answer_schema`. After a reply that does not hold exactly one
    valid object, the model is shown that reply and what is wrong with it, and asked again with another seed. Only the
    last refused reply stands in the conversation, so that it does not grow.

    Args:
        model: who is asked.
        request: the question; its `answer_schema` is replaced.
        answer: what the reply must validate as.
        tries: how often to ask at most, from 1.

    Raises:
        AnswerFailure: no try gave a valid answer.
        ModelFailure: the model did not answer at all.
    """
    (found,) = await ask_several(model, request, answer, tries)
    if isinstance(found, ModelFailure):
        raise found
    return found


async def ask_several(
    model: ChatModel, request: ChatRequest, answer: type[A], tries: int = 3
) -> list[A | ModelFailure]:
    """Ask for `request.n` records in one request; each is asked for again by itself where it is no valid one.

    Args:
        model: who is asked.
        request: the question; its `answer_schema` is replaced. Sample i is the answer to its seed plus i.
        answer: what each sample must validate as.
        tries: how often to ask for one record at most, from 1.

    Returns:
        A record for each sample, or why there is none.

    Raises:
        ModelFailure: the model did not answer the request for all of them.
    """
    asked = replace(request, answer_schema=json.dumps(answer.model_json_schema()))
    completion = await model.complete(asked)
    samples = [_Sample(model, _sample_request(asked, number), answer, tries) for number in range(asked.n)]
    firsts = _first_completions(completion, asked.n)
    return await side_by_side(sample.settle(first) for sample, first in zip(samples, firsts, strict=True))


class _Sample(NamedTuple, Generic[A]):
    """One of the records that are asked for."""

    model: ChatModel
    asked: ChatRequest
    """The question as if it were asked for this record alone."""
    answer: type[A]
    tries: int

    async def settle(self, first: Completion | None) -> A | ModelFailure:
        """The record in the first completion, or in a later one; None where the model gave too few samples."""
        completion, attempt, problem = first, self.asked, ""
        for number in range(1, self.tries + 1):
            if completion is None:
                try:
                    completion = await self.model.complete(attempt)
                except ModelFailure as failure:
                    return failure
            try:
                return parse_answer(completion.text, self.answer)
            except ValueError as error:
                problem = _problem_with_quote(str(error), completion)
            attempt, completion = _repeated_request(self.asked, completion.text, problem, number), None
        return AnswerFailure(f"{self.asked.role}: no valid answer in {self.tries} tries; last: {problem}")


def _sample_request(asked: ChatRequest, number: int) -> ChatRequest:
    return replace(asked, n=1, seed=asked.seed + number, draws=asked.draws[number : number + 1])


def _first_completions(completion: Completion, samples: int) -> list[Completion | None]:
    if samples == 1:
        return [completion]
    texts = (completion.text, *completion.others)[:samples]
    # A completion has one finish reason and one count of tokens for all its samples.
    found = [completion._replace(text=text, others=(), finish_reason="") for text in texts]
    return [*found, *[None] * (samples - len(found))]


def parse_answer(text: str, answer: type[A]) -> A:
    """The record in a reply, whatever stands around it; thoughts between `<think>` tags are not looked at.

    Raises:
        ValueError: it holds no valid object or different ones; the text is one line that says what is wrong.
    """
    valid: list[A] = []
    problem = "the reply holds no JSON object"
    for found in _objects(_after_thoughts(text)):
        try:
            record = answer.model_validate(found)
        except ValidationError as error:
            problem = _problems(error)
        except RecursionError:
            problem = "the JSON object is nested too deeply"
        else:
            if record not in valid:
                valid.append(record)
    match valid:
        case [record]:
            return record
        case []:
            raise ValueError(problem)
        case _:
            raise ValueError(f"the reply holds {len(valid)} different answers; give one")


def _after_thoughts(text: str) -> str:
    return text.rpartition("</think>")[2].partition("<think>")[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text, in order; what lies within a broken one is none."""
    # Not strict: models write line breaks within strings as they are.
    decoder = json.JSONDecoder(parse_constant=_refuse, strict=False)
    at = 0
    for _ in range(_MOST_STARTS):
        start = _OBJECT_START.search(text, at)
        if start is None:
            return
        try:
            found, at = decoder.raw_decode(text, start.start())
            yield _storable(found)
        except json.JSONDecodeError as error:
            at = max(error.pos, start.start() + 1)
        except (ValueError, RecursionError):
            return


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _storable(value: Any) -> Any:
    """The value with all its texts storable: an escape can hold what the text around it cannot."""
    match value:
        case str():
            return storable(value)
        case list():
            return [_storable(item) for item in value]
        case dict():
            return {storable(key): _storable(item) for key, item in value.items()}
        case _:
            return value


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    listed = [
        _one_line(f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}") for each in found[:_MOST_ERRORS]
    ]
    more = len(found) - len(listed)
    return "; ".join([*listed, f"and {more} more"] if more else listed)


def _problem_with_quote(problem: str, completion: Completion) -> str:
    cut = f" (cut off after {completion.output_tokens} tokens)" if completion.finish_reason == "length" else ""
    begins = _one_line(completion.text[: 4 * _MOST_QUOTED])[:_MOST_QUOTED]
    return f'{problem}{cut}, reply begins "{begins}"' if begins else f"the reply is empty{cut}"


def _one_line(text: str) -> str:
    return " ".join(storable(text).split())


def _repeated_request(asked: ChatRequest, reply: str, problem: str, number: int) -> ChatRequest:
    refused = ChatMessage("assistant", (storable(reply[:_MOST_SHOWN]),))
    wish = ChatMessage(
        "user",
        (
            f"That is not a valid answer: {problem}.\n"
            "Answer again with one JSON object that follows the schema, and nothing else.\n"
            f"Schema: {asked.answer_schema}",
        ),
    )
    seed = int(content_id("ask again", asked.seed, number), 16) % 2**31
    return replace(asked, messages=(*asked.messages, refused, wish), seed=seed)
