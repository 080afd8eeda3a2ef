"""Reads what the roles of an agent reply: a reply is well formed, or it is `Malformed` and decides nothing.

Each role has one parser. It is tolerant of form (sections, labels, numbering, bold, code fences, JSON, thinking before
the answer) and strict in substance: it takes nothing in place of what the role was asked for. Lists and texts are put
on one line and cut, so that text of models and screens, which is untrusted, can begin no section of a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from trajmill.schemas.text import one_line
from trajmill.stages.models.prompts import json_objects

MOST_ITEMS: Final = 40
LONGEST_ITEM: Final = 400
LONGEST_TEXT: Final = 4000
_MOST_QUERIES: Final = 5
NONE: Final = "none"
SUCCESS, FAILURE = "SUCCESS", "FAILURE"

_HEADING = re.compile(r"^[ \t]*#{2,4}[ \t]*([A-Za-z][A-Za-z _-]{0,40}?)[ \t]*(?:#{2,4}|:)?[ \t]*$", re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:\d{1,3}[.)]\s+|[-*•]\s+)?")
_ITEM = re.compile(r"\s*(?:\d{1,3}[.)]|[-*•])\s+\S.*")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_THINKING = re.compile(r"<think(?:ing)?>")
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>")
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_MARKS = "*_`\"' \t"
_FINISHED = re.compile(r"finished(?:\s*[.!:;,–—]+.*|\s+[–—-]\s.*)?", re.IGNORECASE)
_OUTCOME = re.compile(r"(success(?:ful)?|fail(?:ure|ed)?)\b(.*)", re.IGNORECASE)
_BOTH_OUTCOMES = re.compile(r"success\s*(?:or|/|\|)\s*failure", re.IGNORECASE)
_NOTHING = re.compile(rf"{NONE}", re.IGNORECASE)
_LABEL = re.compile(r"(?:final answer|answer|instruction|state|new state|plan|thought)\s*:\s*", re.IGNORECASE)
_HEADINGS: Final = {
    "thought": "thought",
    "plan": "plan",
    "subgoals": "plan",
    "completed subgoals": "completed subgoals",
    "completed subgoal": "completed subgoals",
    "completed": "completed subgoals",
    "outcome": "outcome",
    "feedback": "feedback",
    "important notes": "important notes",
    "notes": "important notes",
    "atomic tasks": "atomic tasks",
    "queries": "queries",
    "search queries": "queries",
    "summary": "summary",
}
"""The headings that models write, and the sections that they begin."""


class Malformed(NamedTuple):
    """A reply that is not what its role was asked for."""

    reason: str
    """One phrase, e.g. `no instruction`."""


class Plan(NamedTuple):
    thought: str
    pending: tuple[str, ...]
    """Pending subgoals; empty only if the reply says `Finished`."""
    completed: tuple[str, ...]
    """Completed subgoals; empty if the reply lists none."""


class Reflection(NamedTuple):
    """The reply of a Reflector, F in paper Mobile-Agent-v3."""

    outcome: str
    feedback: str
    """Why it failed; empty after a success, or if the reply gives no reason."""


def read_first_plan(text: str) -> Plan | Malformed:
    """Read a Manager's first plan, which has at least one subgoal (Mobile-Agent-v3, equation 5)."""
    plan = read_plan(text)
    return Malformed("a first plan without subgoals") if isinstance(plan, Plan) and not plan.pending else plan


def read_plan(text: str) -> Plan | Malformed:
    """Read a Manager's updated plan; only the word `Finished` empties it (Mobile-Agent-v3, equation 6)."""
    sections = _reply_sections(text, "thought", "completed subgoals", "plan")
    items = read_items(sections.get("plan", _bare_list(text, _FINISHED)))
    if not items:
        return Malformed("no plan")
    pending = tuple(item for item in items if _FINISHED.fullmatch(item.strip(_MARKS)) is None)
    completed = read_items(sections.get("completed subgoals", ""))
    return Plan(one_line(sections.get("thought", "")), pending, completed)


def read_reflection(text: str) -> Reflection | Malformed:
    """Read a Reflector's outcome (Mobile-Agent-v3, equation 8): one of the two words, not both."""
    sections = _reply_sections(text, "outcome", "feedback")
    said = plain(sections.get("outcome", _after_thinking(text)))
    found = _OUTCOME.match(said)
    if found is None or _BOTH_OUTCOMES.match(said):
        return Malformed("neither SUCCESS nor FAILURE")
    if found[1].casefold().startswith("success"):
        return Reflection(SUCCESS, "")
    feedback = one_line(sections.get("feedback", found[2].lstrip(" .:;,–—-*_")))
    return Reflection(FAILURE, "" if feedback.casefold().strip(f".{_MARKS}") == NONE else feedback)


def read_notes(text: str) -> tuple[str, ...] | Malformed:
    """Read a Notetaker's notes (Mobile-Agent-v3, equation 9); the word `none` is well formed and notes nothing."""
    body = _reply_sections(text, "important notes").get("important notes", _bare_list(text, _NOTHING))
    return read_items(body) if body.strip() else Malformed("no notes")


def read_queries(text: str) -> tuple[str, ...] | Malformed:
    """Read a researcher's queries, at most five (Mobile-Agent-v3, 7.2.1)."""
    queries = read_items(_reply_sections(text, "queries").get("queries", _bare_list(text)))
    return queries[:_MOST_QUERIES] or Malformed("no queries")


def read_summary(text: str) -> str | Malformed:
    """Read a researcher's summary on one line, under its heading or as the whole reply; `none` if nothing helps."""
    under = _reply_sections(text, "summary").get("summary")
    answer = _answer(text, "summary") if under is None else under
    if isinstance(answer, Malformed):
        return answer
    if under is None and _HEADING.search(answer):
        return Malformed("a heading other than Summary")
    said = plain(answer)
    return (NONE if said.casefold().strip(f".{_MARKS}") == NONE else said) or Malformed("no summary")


def read_atomic_tasks(text: str) -> tuple[str, ...] | Malformed:
    """Read the lines in which a parser divides a task (NaturalGAIA 4.1)."""
    lines = read_items(_reply_sections(text, "atomic tasks").get("atomic tasks", _bare_list(text)))
    return lines or Malformed("no atomic tasks")


def read_instruction(text: str) -> str | Malformed:
    """Read a Coordinator's one instruction (CES, equation 1): within `<answer>`, as JSON, or as the only line."""
    answer = _answer(text, "instruction", "answer")
    if isinstance(answer, Malformed):
        return answer
    lines = [line for line in answer.splitlines() if line.strip()]
    if sum(_ITEM.fullmatch(line) is not None for line in lines) > 1:
        return Malformed("several instructions")
    if len(lines) > 1 and not _ANSWER.search(text):
        return Malformed("several lines outside of <answer>")
    return plain(answer) or Malformed("no instruction")


def read_state(text: str) -> str | Malformed:
    """Read a State Tracker's summary (CES, equation 3): within `<answer>`, as JSON, or as the whole reply."""
    answer = _answer(text, "state", "summary", "answer")
    return answer if isinstance(answer, Malformed) else plain(answer) or Malformed("no state")


def read_thought(text: str) -> str | Malformed:
    """Read a Planner's thought (CODA 3.2): all that follows the thinking."""
    answer = _answer(text, "thought", "plan", "answer")
    return answer if isinstance(answer, Malformed) else plain(answer) or Malformed("no thought")


def read_sections(text: str) -> Mapping[str, str]:
    """The sections `### Heading ###` of a prompt by headings in lower case; of two with one heading the last counts."""
    _, *parts = _HEADING.split(text)
    return {name.strip().casefold(): body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def bounded(text: str) -> str:
    return one_line(text, LONGEST_TEXT)


def plain(text: str) -> str:
    """A text on one line without its number, bold, label (`Answer:`) and surrounding marks."""
    line = _BULLET.sub("", bounded(text.replace("**", "")), count=1)
    line = _LABEL.sub("", line, count=1) if _LABEL.match(line) else line
    marked = len(line) > 1 and line[0] == line[-1] and line[0] in "*_`"
    return line[1:-1].strip() if marked else line.strip()


def numbered(items: Iterable[str]) -> str:
    """The items as a numbered list, one a line; `none` without any."""
    return "\n".join(f"{number}. {one_line(item, LONGEST_ITEM)}" for number, item in enumerate(items, start=1)) or NONE


def read_items(text: str) -> tuple[str, ...]:
    """The items of a list, one a line, without numbers, bullets and bold; none of the text `none`."""
    lines = (one_line(_BULLET.sub("", line.replace("**", ""), count=1), LONGEST_ITEM) for line in text.splitlines())
    items = [line for line in lines if line and line.casefold().rstrip(".") != NONE]
    return tuple(items[:MOST_ITEMS])


def _reply_sections(text: str, *names: str) -> Mapping[str, str]:
    """The sections of a reply that have one of some names: of a JSON object, else under headings or after labels."""
    said = _after_thinking(text)
    for found in json_objects(said):
        known = {_HEADINGS.get(key.replace("_", " ").casefold()): _listed(value) for key, value in found.items()}
        if any(name in known for name in names):
            return {name: known[name] for name in names if name in known}
    sections: dict[str, list[str]] = {}
    body: list[str] = []
    for line in said.splitlines():
        heading = _heading(line, names, sections)
        if heading is None:
            body.append(line)
        else:
            body = sections[heading[0]] = [heading[1]]
    return {name: _FENCE.sub("", "\n".join(lines)).strip() for name, lines in sections.items()}


def _heading(line: str, names: Collection[str], known: Collection[str]) -> tuple[str, str] | None:
    """The section that a line begins, and what follows its colon; an item of a list begins no section twice."""
    mark = re.match(r"\s*(\d{1,2}[.)]|[-•])?[\s#*_>`]*", line)
    said = line[mark.end() :] if mark else line
    found = re.match(r"([A-Za-z]+(?: [A-Za-z]+)?)[\s*_#`]*(?::[\s*_`]*(.*))?$", said)
    section = _HEADINGS.get(found[1].casefold()) if found else None
    if found is None or section is None or section not in names or (mark and mark[1] and section in known):
        return None
    return section, (found[2] or "").rstrip("*_# ")


def _bare_list(text: str, word: re.Pattern[str] | None = None) -> str:
    """A reply that is a list and nothing else, or the word that stands for an empty one; empty if it is neither."""
    said = _FENCE.sub("", _after_thinking(text)).strip()
    if all(_ITEM.fullmatch(line) for line in said.splitlines() if line.strip()):
        return said
    return said if word is not None and word.fullmatch(said.strip(f".!{_MARKS}")) else ""


def _answer(text: str, *keys: str) -> str | Malformed:
    """What a reply says within its last `<answer>`, under a key of a JSON object, or after its thinking."""
    if _THINKING.search(_THOUGHT_ENDS.split(text)[-1]):
        return Malformed("its thinking is not closed")
    said = _after_thinking(text)
    if found := _ANSWER.findall(said):
        said = found[-1]
    elif "<answer>" in said:
        return Malformed("its <answer> is not closed")
    for value in json_objects(said):
        if isinstance(given := next((value[key] for key in keys if key in value), None), str):
            return given
    rest = _FENCE.sub("", said).strip()
    return Malformed("a call or JSON of another form") if rest.startswith(("{", "<tool_call>")) else rest


def _after_thinking(text: str) -> str:
    """What follows the thinking; nothing if it is not closed."""
    said = _THOUGHT_ENDS.split(text)[-1]
    return "" if _THINKING.search(said) else said


def thinking(text: str) -> str:
    """Return what a reply says within `<think>`, on one line; empty without it."""
    said, *rest = _THOUGHT_ENDS.split(text)
    return one_line(_THINKING.sub("", said)) if rest else ""


def _listed(value: Any) -> str:
    """A JSON value as the text of a section: a list has a line for each item."""
    match value:
        case list():
            return "\n".join(map(_listed, value))
        case {"device": str(device), "instruction": str(said)}:
            return f"[{device}] {said}" + (f" -> {value['answer']}" if value.get("answer") else "")
        case dict():
            return one_line(" ".join(str(each) for each in value.values()))
        case _:
            return str(value)
