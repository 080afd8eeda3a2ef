"""The actions that a screen offers, and all that the network sees of each beside its words: kind and flags."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Click, Scroll, Swipe, SystemButton
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import HOLDABLE, SLIDER_MARK, UIElement
from trajmill.stages.models.embedded.words import (
    HOLDING,
    STOP_WORDS,
    Conclusion,
    GuidanceLine,
    code_of,
    confirms,
    fits,
    noted_values,
    plain,
    tokens,
)

MAX_PRESSES = 64
"""Most elements of a screen that become candidates; the others can be reached by scrolling."""
MAX_TYPED = 24
_LONGEST_SPAN = 3
_WHEEL_CLICKS = 3
_SUM = re.compile(r"\d[\d\s.+*/-]*\d")
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”")
_ASKS = re.compile(r"(?:^|[.:,;] )(?:what|which|when|where|who|how)\b|\b(?:tell me|want to know)\b", re.IGNORECASE)
"""Found in a question, but not in a request such as `Could you delete it?`."""
_NOWHERE = Box(0, 0, 0, 0)
_LOADING = re.compile(r"^(?:loading|please wait|one moment)\b", re.IGNORECASE)
_FILLED = "filled"


class CandidateAction(NamedTuple):
    verb: str
    """`press`, `open` (double click), `hold`, `drag`, `type`, `down`, `up`, `back`, `home`, `enter`, `wait`, `answer`,
    `finish` or `fail`."""
    text: str = ""
    """Label of the pressed element, the text to type, or the answer."""
    field: str = ""
    """Label of the group, stepper, input or value that it belongs to."""
    role: str = ""
    """Role of the element; for `type` the origin of the text: `quoted`, `noted` or `span`."""
    bounds: Box = _NOWHERE
    """Box of the pressed element, or of the scrolled list."""
    states: tuple[str, ...] = ()
    beside: str = ""
    """Text in the same row that cannot be pressed, e.g. the number of a stepper or the label of an input."""
    start: Box = _NOWHERE
    """Box of the knob that is dragged to `bounds`."""

    def action(self, *, phone: bool) -> Action:
        x, y = self.bounds.center
        match self.verb:
            case "press":
                return Click(x=x, y=y)
            case "open":
                return Click(x=x, y=y, count=2)
            case "hold":
                return actions.hold(self.bounds.center, touch=phone)
            case "drag":
                return actions.drag(self.start.center, self.bounds.center, touch=phone)
            case "wait":
                return actions.Wait()
            case "type":
                return actions.TypeText(text=self.text, clear=_FILLED in self.states and not phone)
            case "answer":
                return actions.Answer(text=self.text)
            case "down" | "up" if not phone:
                return Scroll(x=x, y=y, clicks=-_WHEEL_CLICKS if self.verb == "down" else _WHEEL_CLICKS)
            case "down" | "up":
                reach = (self.bounds.bottom - self.bounds.top) * 3 // 8
                reach = reach if self.verb == "down" else -reach
                return Swipe(x=x, y=y + reach, x2=x, y2=y - reach)
            case "back":
                return SystemButton(button="Back")
            case "home":
                return SystemButton(button="Home")
            case "enter":
                return SystemButton(button="Enter") if phone else actions.PressKeys(keys=("enter",))
            case _:
                return actions.Terminate(status="failure" if self.verb == "fail" else "success")


def screen_candidates(elements: Sequence[UIElement], size: Size, *, phone: bool) -> list[CandidateAction]:
    """Return the candidates that do not depend on the task: presses, scrolls, the end, system buttons.

    A page that is loading offers nothing but to wait.
    """
    readable = [e for e in elements if e.role in ("text", "value") and "clickable" not in e.states]
    if any(_LOADING.search(element.text) for element in readable):
        return [CandidateAction("wait")]

    def beside(box: Box) -> str:
        return next((e.value or e.text for e in readable if box.top <= e.bounds.center.y < box.bottom), "")

    presses = [
        CandidateAction(
            "open" if element.role == "icon" and not phone else "press",
            element.text or element.value,
            element.value if element.text else "",
            element.role,
            element.bounds,
            element.states,
            beside(element.bounds),
        )
        for element in elements
        if "clickable" in element.states and "disabled" not in element.states
    ][:MAX_PRESSES]
    presses += [
        CandidateAction("hold", e.text, e.value, e.role, e.bounds, e.states, beside(e.bounds))
        for e in elements
        if HOLDABLE in e.states and e.role == "list_item"
    ]
    knobs = {e.value: e.bounds for e in elements if e.role == SLIDER_MARK and "checked" in e.states}
    presses += [
        CandidateAction("drag", e.text, e.value, e.role, e.bounds, e.states, start=knobs[e.value])
        for e in elements
        if e.role == SLIDER_MARK and e.value in knobs
    ]
    scrolls = [
        CandidateAction(verb, bounds=element.bounds, role=element.role)
        for element in elements
        for verb in ("down", "up")
        if f"scrollable_{verb}" in element.states
    ]
    always = [CandidateAction("finish")]
    on_launcher = any(element.role == "icon" for element in elements)
    if phone and not on_launcher:
        always += [CandidateAction("back"), CandidateAction("home")]
    if any("focused" in element.states for element in elements):
        always.append(CandidateAction("enter"))
    return presses + scrolls + always


def may_give_up(
    candidates: Sequence[CandidateAction], instruction: str, title: str, conclusions: Sequence[Conclusion]
) -> bool:
    """Whether a list ends here that the instruction speaks of, and none of its rows is what the instruction asks for.

    It speaks of a list if it has a word of the page's title, or of what was pressed last. The first page of an app and
    the page of one item, such as a folder, do not count: what is asked for may be elsewhere.
    """
    rows, asked = [_said(each.text) for each in candidates if each.role == "list_item"], _said(instruction)
    verbs = {candidate.verb for candidate in candidates}
    has_scrolled = any((past.verb, past.title) == (CONCLUSION_VERBS["down"], plain(title)) for past in conclusions)
    goes_on = "down" in verbs or ("up" in verbs and not has_scrolled)
    if not (rows and conclusions) or goes_on or any(row and row <= asked for row in rows):
        return False
    elsewhere = {past.target for past in conclusions if past.field or past.title == conclusions[0].title}
    place = _said(f"{title} {conclusions[-1].target}")
    return plain(title) not in elsewhere and not asked.isdisjoint(place)


def _said(text: str) -> frozenset[str]:
    return frozenset(token.normal for token in tokens(text)) - STOP_WORDS


def answer_candidates(elements: Sequence[UIElement]) -> list[CandidateAction]:
    """Return the answers that a screen offers: its texts of the form `Label: value`."""
    labelled = ((element, *element.text.partition(": ")) for element in elements if element.role == "value")
    return [CandidateAction("answer", text, label, "value", e.bounds) for e, label, _, text in labelled if text]


def asks_for(instruction: str, answer: CandidateAction) -> bool:
    """Whether an instruction is a question that has a word of the label of an answer."""
    return _ASKS.search(instruction) is not None and not _said(answer.field).isdisjoint(_said(instruction))


def typed_candidates(instruction: str, notes: Sequence[str], field: UIElement) -> list[CandidateAction]:
    """Return texts to type into `field`: quoted parts of the instruction, noted values, then one to three words.

    Such words stand within one clause, and neither begin nor end with a stop word.
    """
    texts = {text: "quoted" for match in _QUOTED.finditer(instruction) if (text := (match[1] or match[2]).strip())}
    for note in notes:
        texts.setdefault(note, "noted")
    unquoted = _QUOTED.sub(" | ", instruction)
    found = tokens(unquoted)
    breaks = [i > 0 and not unquoted[found[i - 1].end : found[i].start].isspace() for i in range(len(found))]
    for length in range(1, _LONGEST_SPAN + 1):
        for first in range(len(found) - length + 1):
            last = first + length - 1
            if not any(breaks[first + 1 : last + 1]) and not {found[first].normal, found[last].normal} & STOP_WORDS:
                texts.setdefault(unquoted[found[first].start : found[last].end], "span")
    label = field.text or field.value
    # The text of a labelled field is replaced, where the dialect can say so; that of a document is continued.
    states = (_FILLED,) if field.text and field.value else ()
    typed = [CandidateAction("type", text, label, origin, field.bounds, states) for text, origin in texts.items()]
    return typed[:MAX_TYPED]


def next_keys(instruction: str, conclusions: Sequence[Conclusion]) -> frozenset[str]:
    """Return the keys of a keypad that go on with a sum or number of the instruction, after those pressed last."""
    pressed = ""
    for past in reversed(conclusions):
        if past.verb != CONCLUSION_VERBS["press"] or len(past.target) != 1:
            break
        pressed = past.target + pressed
    sums = ("".join(match[0].split()) + "=" for match in _SUM.finditer(instruction))
    return frozenset(each[len(pressed)] for each in sums if each.startswith(pressed) and each != pressed)


_KIND_NAMES = """other button list_item radio checkbox switch stepper_button text_field search_field icon menu menu_item
tab link slider_mark hold wait quoted noted span down up back home enter finish fail answer"""
KINDS = tuple(_KIND_NAMES.split())
"""The kinds of candidates: the role of a pressed element, the origin of a typed text, or a verb."""
CHOICES = ("list_item", "hold", "radio", SLIDER_MARK)
"""Kinds of candidates among which the instruction decides, not the screen."""
LABELLED = frozenset(["button", "checkbox", "switch", "text_field", "search_field", "menu", "menu_item", "tab", "link"])
"""Kinds of candidates whose text is a label; that of others is data or an option, which instructions name."""
_FLAG_NAMES = """chosen focused x y done_once done_twice done_often just_done same_verb filled known_text
counts number_said towards_number away_from_number hinted hint_unseen hints_done was_noted"""
FLAGS = tuple(_FLAG_NAMES.split())
"""The flags of a candidate: state and position of its element, and what the history says about it."""
CONCLUSION_VERBS = {
    "press": "Tapped",
    "open": "Opened",
    "hold": "Held",
    "drag": "Dragged",
    "wait": "Waited",
    "type": "Typed",
    "down": "Scrolled",
    "up": "Scrolled",
    "back": "Returned",
    "home": "Left",
    "enter": "Confirmed",
    "finish": "Finished",
    "fail": "Stopped",
    "answer": "Answered",
}
_BY_MEANING = ("type", "fail", "answer")
LEAVING = {"back": "back", "close": "back", "show desktop": "home"}
"""Verbs of app buttons that do the same as a system button, by their label."""
_KIND_INDEX = {kind: index for index, kind in enumerate(KINDS)}
_FLAG_INDEX = {flag: index for index, flag in enumerate(FLAGS)}
_SETTLED = [_FLAG_INDEX[name] for name in ("chosen", "done_once", "done_twice", "done_often")]
_COUNTS = slice(_FLAG_INDEX["counts"], _FLAG_INDEX["counts"] + 4)


def kind_of(candidate: CandidateAction) -> int:
    name = candidate.role if candidate.verb in ("press", "open", "type", "drag") else candidate.verb
    if name == "button":
        name = LEAVING.get(candidate.text.casefold(), name)
    return _KIND_INDEX.get(name, 0)


def pair_code(candidate: CandidateAction) -> int:
    """Return the candidate's code in the memory of pairs; 0 where words must not decide.

    What is held has one code, so that what is learned of a held item is known of any.
    """
    if candidate.verb == "hold":
        return code_of("hold")
    return 0 if candidate.verb in _BY_MEANING else code_of(f"{candidate.verb} {candidate.text}".casefold())


def spot_codes(candidates: Sequence[CandidateAction]) -> list[int]:
    """Return for each labelled control the code of its kind and its number among those; 0 for other candidates."""
    numbers, codes = Counter[str](), list[int]()
    for candidate in candidates:
        kind = KINDS[kind_of(candidate)]
        numbers[kind] += 1
        codes.append(code_of(f"{kind} {numbers[kind]}") if kind in LABELLED else 0)
    return codes


def fixed_flags(candidate: CandidateAction, size: Size) -> list[float]:
    """Return the flags with those set that depend on the screen alone."""
    x, y = candidate.bounds.center
    chosen = float("selected" in candidate.states or "checked" in candidate.states)
    set_flags = [chosen, float("focused" in candidate.states), x / size.width, y / size.height]
    return set_flags + [0.0] * (len(FLAGS) - len(set_flags))


def is_open(flags: Tensor) -> Tensor:
    """Return 1 for candidates that are, by their flags, neither selected nor done already."""
    return (flags[..., _SETTLED].sum(-1) == 0).to(flags.dtype)


def with_task_flags(
    flags: NDArray[np.float32],
    candidates: Sequence[CandidateAction],
    title: str,
    conclusions: Sequence[Conclusion],
    numbers: Sequence[int],
    keys: Collection[str],
    *,
    filled: bool,
) -> NDArray[np.float32]:
    """Set the flags that depend on the task.

    `flags` are (candidates, FLAGS), the result of `fixed_flags`; `title` is the screen's; `numbers` are the whole
    numbers of the instruction, `keys` the result of `next_keys`; `filled` tells an input with text from an empty one.
    """
    flags = flags.copy()
    title = plain(title)
    times = Counter(conclusion[:4] for conclusion in conclusions)
    targets = {conclusion.target for conclusion in conclusions if conclusion.target}
    notes = noted_values(conclusions)
    last = conclusions[-1] if conclusions else None
    for row, candidate in enumerate(candidates):
        verb, text, label = CONCLUSION_VERBS[candidate.verb], plain(candidate.text), plain(candidate.field)
        done = times[verb, text, label, title]
        if done:
            flags[row, _FLAG_INDEX["done_once"] + min(done, 3) - 1] = 1.0
            flags[row, _FLAG_INDEX["just_done"]] = float(last[:4] == (verb, text, label, title)) if last else 0.0
        if last is not None and last.verb == verb:
            flags[row, _FLAG_INDEX["same_verb"]] = 1.0
        if filled and candidate.verb in ("type", "enter"):
            flags[row, _FLAG_INDEX["filled"]] = 1.0
        if text in targets:
            flags[row, _FLAG_INDEX["known_text"]] = 1.0
        # A note may have a label before its value.
        if text and any(note == text or note.endswith(f": {text}") for note in notes):
            flags[row, _FLAG_INDEX["was_noted"]] = 1.0
        if candidate.beside.isdecimal():
            shown = int(candidate.beside)
            above, below = (any(n > shown for n in numbers), any(n < shown for n in numbers))
            towards = shown not in numbers and {"+": above, "-": below}.get(candidate.text, False)
            flags[row, _COUNTS] = 1.0, float(shown in numbers), float(towards), float(not towards)
        elif text in keys and candidate.role == "button":
            flags[row, _FLAG_INDEX["towards_number"]] = 1.0
    return flags


def names(line: GuidanceLine, candidate: CandidateAction) -> bool:
    """Return whether a line asks for a candidate: equal texts, and equal groups if the line names one."""
    if confirms(line):
        return candidate.verb == "enter"
    if line.verb == "give" and not line.target:
        return candidate.verb == "fail"
    held = line.verb in HOLDING
    if not line.target or (candidate.verb == "type") != (line.verb == "type") or (candidate.verb == "hold") != held:
        return False
    return plain(candidate.text) == line.target and fits(line, candidate.field)


def asks_to_fill(line: GuidanceLine, candidate: CandidateAction) -> bool:
    """Return whether a line asks to type into the input that pressing the candidate would focus."""
    is_input = candidate.role in ("text_field", "search_field") and "focused" not in candidate.states
    return line.verb == "type" and is_input and fits(line, candidate.text)


_SEARCHES, _TO_LAUNCHER = ("down", "up", "back", "enter"), ("home",)
"""Kinds of candidates that can show the target of a guidance line; apps are opened on the launcher."""


def with_guidance_flags(
    flags: NDArray[np.float32], candidates: Sequence[CandidateAction], left: Sequence[GuidanceLine]
) -> NDArray[np.float32]:
    """Set the flags that depend on the guidance; `left` are its lines that are not done yet."""
    flags = flags.copy()
    if not left:
        flags[:, _FLAG_INDEX["hints_done"]] = [float(candidate.verb == "finish") for candidate in candidates]
        return flags
    hinted = [names(left[0], candidate) or asks_to_fill(left[0], candidate) for candidate in candidates]
    flags[:, _FLAG_INDEX["hinted"]] = hinted
    if not any(hinted):
        searches = _TO_LAUNCHER if left[0].verb == "open" else _SEARCHES
        flags[:, _FLAG_INDEX["hint_unseen"]] = [KINDS[kind_of(candidate)] in searches for candidate in candidates]
    return flags
