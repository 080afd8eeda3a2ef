"""Composes the thoughts of the embedded policy: what the screen shows, what was done, what is wanted, what is next.

Each sentence states a fact of the request or of the chosen action, so that a thought says nothing that the agent cannot
know. The request decides which sentences stand in a thought, and how they are worded.
"""

from __future__ import annotations

import random
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import groupby

from trajmill.schemas.dialects.user_text import UserText
from trajmill.stages.models.embedded.candidates import LEAVING, CandidateAction
from trajmill.stages.models.embedded.situation import PolicyInput
from trajmill.stages.models.embedded.words import STOP_WORDS, Conclusion, noted_values, quoted, tokens


@cache
def _wordings() -> Mapping[str, Mapping[str, Sequence[str]]]:
    file = resources.files("trajmill.stages.models.embedded").joinpath("thoughts.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def compose_thought(policy_input: PolicyInput, chosen: int, user: UserText) -> str:
    """Return the thought before the candidate at index `chosen`; equal arguments give equal thoughts."""
    candidate, title, past = policy_input.candidates[chosen], policy_input.title, policy_input.conclusions
    instruction, steps = user.instruction, len(user.conclusions)
    key = f"{instruction}\x1f{steps}\x1f{title}\x1f{candidate.verb}\x1f{candidate.text}"
    wording, words = random.Random(zlib.crc32(key.encode(errors="replace"))), _wordings()
    parts = {
        "seen": _seen(policy_input, wording),
        "done": _done(past, steps, title, wording),
        "wanted": _wanted(candidate, past, instruction, wording),
    }
    verb = candidate.role if candidate.verb == "press" else candidate.verb
    plan = wording.choice(words["plans"].get(verb, words["plans"]["press"]))
    said = plan.format(quoted(candidate.text) if candidate.text else "").strip()
    chosen_parts = wording.choice(words["order"]["parts"]).split()
    return " ".join([*(parts[part] for part in chosen_parts), wording.choice(words["order"]["next"]).format(said)])


def _seen(policy_input: PolicyInput, wording: random.Random) -> str:
    title, candidates = quoted(policy_input.title or "a screen without a title"), policy_input.candidates
    verbs = {each.verb for each in candidates}
    count = sum(each.verb in ("press", "open") for each in candidates)
    if any(each.role == "icon" for each in candidates):
        apps = f"{count} app{'s' * (count != 1)}"
        return wording.choice([f"I see {title}.", f"I see {title} with {apps}.", f"I count {apps} on {title}."])
    if "type" in verbs:
        field = quoted(candidates[-1].field)
        return wording.choice([f"The field {field} has the focus.", f"I see {title}, ready for text in {field}."])
    if verbs & {"down", "up"}:
        more = "goes on below" if "down" in verbs else "ends here"
        return wording.choice(
            [f"I see {title}.", f"{title} is open, and its list {more}.", f"The list of {title} {more}."]
        )
    return wording.choice(
        [f"I see {title}.", f"{title} is open.", f"{title} has {count} element{'s' * (count != 1)} to press."]
    )


def _done(past: Sequence[Conclusion], steps: int, title: str, wording: random.Random) -> str:
    if not past:
        return wording.choice(["This is the first step.", "I begin here.", "Nothing is done yet."])
    last, verbs = past[-1], _wordings()["done"]
    done = wording.choice(verbs.get(last.verb, verbs["other"])).format(quoted(last.target))
    if last.notes:
        return f"{done} after noting {', '.join(map(quoted, last.notes))}."
    if title and last.title == title:
        return wording.choice([f"{done} on this page.", f"{done}, which leaves {quoted(title)} open."])
    return wording.choice([f"{done}.", f"{done}, which led here.", f"{done}, so step {steps} is done."])


def _wanted(candidate: CandidateAction, past: Sequence[Conclusion], instruction: str, wording: random.Random) -> str:
    text, shared = candidate.text, quoted(_shared(candidate.text, instruction))
    if candidate.verb not in ("press", "open", "hold", "drag"):
        reason = candidate.role if candidate.verb == "type" else candidate.verb
    elif candidate.beside.isdecimal():
        reason, shared = "number", quoted(candidate.beside)
    elif shared != quoted(""):
        reason = "shared"
    elif {"selected", "checked"} & set(candidate.states):
        reason = "selected"
    elif text and text in noted_values(past):
        reason = "noted"
    else:
        name = LEAVING.get(text.casefold(), candidate.role)
        reason = name if name in _wordings()["wanted"] else "press"
    return wording.choice(_wordings()["wanted"][reason]).format(shared) + "."


def _shared(label: str, instruction: str) -> str:
    """Return the longest run of words of the instruction that a label has too, as the instruction writes it."""
    meant = {token.normal for token in tokens(label)} - STOP_WORDS
    runs = groupby(tokens(instruction), key=lambda token: token.normal in meant)
    longest = max((list(run) for is_shared, run in runs if is_shared), key=len, default=[])
    return instruction[longest[0].start : longest[-1].end] if longest else ""
