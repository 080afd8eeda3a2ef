"""Asks for structured answers: finds a JSON object in the reply, checks it against a schema, and asks again if needed.

A server with guided decoding writes nothing else; a model without it adds code fences and remarks. A reply with two
different valid objects is a failure, because choosing one of them would be guessing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.record import Record, content_id
from trajmill.schemas.text import storable
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, Completion, forget_answer

A = TypeVar("A", bound=Record)

_OBJECT_START = re.compile(r'\{\s*["}]')
_MOST_STARTS = 200
"""Most positions in a reply that are tried as the start of an object; it bounds the time of parsing."""
_MOST_SHOWN = 4000
"""Most characters of a refused reply that are sent back with the question."""
_MOST_ERRORS = 6
_MOST_QUOTED = 80


class AnswerFailure(ModelFailure):
    """The model answered, but no answer was valid."""


async def ask(model: ChatModel, request: ChatRequest, answer: type[A], tries: int = 3) -> A:
    """Ask for a record, see `ask_several`.

    Raises:
        AnswerFailure: no answer was valid.
        ModelFailure: the model did not answer at all.
    """
    (found,) = await ask_several(model, request, answer, tries)
    if isinstance(found, ModelFailure):
        raise found
    return found


async def ask_several(
    model: ChatModel, request: ChatRequest, answer: type[A], tries: int = 3
) -> list[A | ModelFailure]:
    """Ask for `request.n` records in one request; records that are not valid are asked for again one by one.

    The record's JSON schema is the request's `answer_schema`. After a reply without exactly one valid object, the model
    is shown that reply with its mistake, and asked again with another seed. The conversation has only the last refused
    reply.

    Args:
        model: the model to ask.
        request: the question; its `answer_schema` is replaced. Sample i is the answer to its seed plus i.
        answer: the class of the records.
        tries: most questions for one record, at least 1.

    Returns:
        A record or a failure for each sample. Raises ModelFailure if the model did not answer for any of them.
    """
    asked = replace(request, answer_schema=json.dumps(answer.model_json_schema()))
    completion = await model.complete(asked)

    async def settle(number: int) -> A | ModelFailure:
        single = attempt = asked.sample(number)
        found: Completion | None = completion
        if asked.n > 1:
            # A completion has one finish reason and one count of tokens for all its samples.
            texts = (completion.text, *completion.others)[number : number + 1]
            found = completion._replace(text=texts[0], others=(), finish_reason="") if texts else None
        answered, problem = asked, ""
        for tried in range(1, tries + 1):
            if found is None:
                try:
                    found, answered = await model.complete(attempt), attempt
                except ModelFailure as failure:
                    return failure
            try:
                return parse_answer(found.text, answer)
            except ValueError as error:
                cut = f" (cut off after {found.output_tokens} tokens)" if found.finish_reason == "length" else ""
                begins = _one_line(found.text[: 4 * _MOST_QUOTED])[:_MOST_QUOTED]
                problem = f'{error}{cut}, reply begins "{begins}"' if begins else f"the reply is empty{cut}"
            await forget_answer(model, answered)
            refused = ChatMessage("assistant", (storable(found.text[:_MOST_SHOWN]),))
            correction = (
                f"That is not a valid answer: {problem}.\n"
                "Answer again with one JSON object that follows the schema, and nothing else.\n"
                f"Schema: {asked.answer_schema}"
            )
            messages = (*single.messages, refused, ChatMessage("user", (correction,)))
            seed = int(content_id("ask again", single.seed, tried), 16) % 2**31
            attempt, found = replace(single, messages=messages, seed=seed), None
        return AnswerFailure(f"{asked.role}: no valid answer in {tries} tries; last: {problem}")

    return await side_by_side(settle(number) for number in range(asked.n))


def parse_answer(text: str, answer: type[A]) -> A:
    """Parse the record in a reply; text around it, and thoughts between `<think>` tags, are ignored.

    Raises:
        ValueError: it has no valid object, or several different ones; the message is one line.
    """
    valid: list[A] = []
    problem = "the reply holds no JSON object"
    for found in json_objects(text.rpartition("</think>")[2].partition("<think>")[0]):
        try:
            record = answer.model_validate(found)
        except ValidationError as error:
            problem = _problems(error)
        except RecursionError:
            problem = "the JSON object is nested too deeply"
        else:
            if record not in valid:
                valid.append(record)
    if len(valid) > 1:
        raise ValueError(f"the reply holds {len(valid)} different answers; give one")
    if not valid:
        raise ValueError(problem)
    return valid[0]


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects in a text; objects within a broken one do not count."""
    # Not strict, because models write unescaped line breaks within strings.
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
    """Return the value with storable texts: an escape sequence may give characters that no file can store."""
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


def _one_line(text: str) -> str:
    return " ".join(storable(text).split())
