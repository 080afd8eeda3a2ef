"""Lessons beyond accepted attempts: detours, and apps that look unknown.

Detours: a policy trained on accepted attempts alone takes the first entry that fits a little and works on in the wrong
place, or calls it done, most of all in an unknown app. So a share of the presses on an icon, an item of a list, a menu,
or a button that leads to another page is preceded by up to two presses on its neighbours, whose screens come from other
attempts. The wrong press itself is not learned; the way back and the right press after it are.

Unknown apps: every lesson's launcher also shows apps that training never uses. The policy would learn never to open
them, even where the instruction names them. So these look different in every update, and so does a share of the other
apps, with all words and entries of their own: only the instruction and the screen are left to act on.

Renamed controls: a policy that knows a control by its label alone presses any other where the label has changed. So in
a share of the lessons labels have words that nobody knows; page, place, kind and history are left to act on.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from trajmill.stages.models.embedded.candidates import KINDS, LABELLED, CandidateAction, kind_of, pair_code
from trajmill.stages.models.embedded.model import reply_for
from trajmill.stages.models.embedded.situation import WORD_FLAGS, Batch, InputReader, PolicyInput, Situation
from trajmill.stages.training.embedded.lessons import LessonStep, SeenScreen

_MOST_WRONG = 2
_BUTTONS = ("button", "menu_item")
_WAYS_BACK = {"icon": ("home", "back")} | dict.fromkeys(("list_item", "hold", *_BUTTONS), ("back",))
"""Kinds of candidates that lead back from behind an entry, by its kind; a menu is left by opening another one."""


class Detour(NamedTuple):
    """One lesson of a detour."""

    situation: Situation
    label: int
    weight: float
    left_app: int
    """Code of the icon of the app that it leaves; 0 if it leaves none."""


_Place = tuple[bool, str, str, str]
"""What identifies an entry in another attempt: whether on a phone, title of the screen, kind and text."""


def detours(
    steps: Sequence[LessonStep], screens: Mapping[str, SeenScreen], reader: InputReader, share: float, seed: int
) -> list[Detour]:
    """Return the detours of some attempts.

    `reader` has read the requests of the steps. `share` is the probability that a press on an entry is preceded by
    wrong ones.
    """
    draw = random.Random(seed)
    by_place = {(step.turn.trajectory_id, step.turn.step_index): step for step in steps}
    pairs = ((step, by_place.get((step.turn.trajectory_id, step.turn.step_index + 1))) for step in steps)
    following = [(step, after) for step, after in pairs if after and _kind(step.chosen) in (*_WAYS_BACK, "menu")]
    behind: dict[_Place, list[str]] = defaultdict(list)
    for step, after in following:
        behind[_place(step, step.chosen)].append(after.turn.screen_id)
    # Leave out buttons that act instead of leading on: the page stays, or some attempt ends after them.
    for step, after in following:
        stays = after.policy_input.title == step.policy_input.title
        if _kind(step.chosen) in _BUTTONS and (stays or after.chosen.verb in ("home", "answer", "finish", "fail")):
            behind.pop(_place(step, step.chosen), None)
    maker = _DetourMaker(screens, reader, behind, draw)
    return [
        lesson
        for step, after in following
        if after.chosen.verb in ("press", "open", "hold") and draw.random() < share
        for lesson in maker.lessons(step, after.chosen)
    ]


class _DetourMaker(NamedTuple):
    screens: Mapping[str, SeenScreen]
    reader: InputReader
    behind: Mapping[_Place, Sequence[str]]
    """Screens that attempts reached behind an entry."""
    draw: random.Random

    def lessons(self, step: LessonStep, sought: CandidateAction) -> Iterator[Detour]:
        """Yield the detours before a right step, after which `sought` was pressed."""
        kind = _kind(step.chosen)
        others = (each for each in step.policy_input.candidates if _kind(each) == kind)
        wrong = [each for each in others if each.text != step.chosen.text and _place(step, each) in self.behind]
        self.draw.shuffle(wrong)
        here, conclusions, returned = step.policy_input, list(step.user.conclusions), False
        for entry in wrong[: self.draw.randint(1, _MOST_WRONG)]:
            screen_id = self.draw.choice(self.behind[_place(step, entry)])
            pressed = [*conclusions, _conclusion(step, here, here.candidates.index(entry), conclusions)]
            there = self._read(step, screen_id, pressed)
            back = _way_back(step.chosen, there)
            if (
                back is None
                or not there.situation.exists[back]
                or any((c.verb, c.text) == (sought.verb, sought.text) for c in there.candidates)
            ):
                continue
            yield Detour(there.situation, back, step.turn.weight, pair_code(entry) if kind == "icon" else 0)
            if kind == "menu":
                return
            conclusions = [*pressed, _conclusion(step, there, back, pressed)]
            here, returned = self._read(step, step.turn.screen_id, conclusions), True
        if returned:
            yield Detour(here.situation, here.candidates.index(step.chosen), step.turn.weight, 0)

    def _read(self, step: LessonStep, screen_id: str, conclusions: Sequence[str]) -> PolicyInput:
        screen, user = self.screens[screen_id], step.user._replace(conclusions=tuple(conclusions))
        return self.reader.read(user, screen_id, screen.size, screen.elements, phone=step.phone)


def _conclusion(step: LessonStep, here: PolicyInput, chosen: int, conclusions: Sequence[str]) -> str:
    user = step.user._replace(conclusions=tuple(conclusions))
    return reply_for(here, chosen, user, phone=step.phone).conclusion


def _way_back(right: CandidateAction, there: PolicyInput) -> int | None:
    """Return the index of the candidate that leads from behind a wrong entry towards the right one."""
    kinds = [_kind(each) for each in there.candidates]
    if _kind(right) == "menu":
        menus = (index for index, kind in enumerate(kinds) if kind == "menu")
        return next((index for index in menus if there.candidates[index].text == right.text), None)
    return next((kinds.index(kind) for kind in _WAYS_BACK[_kind(right)] if kind in kinds), None)


def _place(step: LessonStep, entry: CandidateAction) -> _Place:
    return step.phone, step.policy_input.title, _kind(entry), entry.text


def _kind(candidate: CandidateAction) -> str:
    return KINDS[kind_of(candidate)]


_IS_LABELLED = torch.tensor([kind in LABELLED for kind in KINDS])
_IS_DATA = torch.tensor([kind in ("list_item", "hold", "icon") for kind in KINDS])
_IS_USED_UP = torch.tensor(["consumed" in flag for flag in WORD_FLAGS])
_IS_TARGET = torch.tensor([False, True, False])
"""Which of the anchors is the last target."""
_RENAMED_WORDS = 0.5
"""Chance that a word is replaced on the labels of renamed controls."""


def naming(situations: Batch, weights: Tensor) -> Tensor:
    """Return the ids of the words on labels, without stop words; `weights` are those of all words."""
    words = torch.zeros(len(weights), dtype=torch.bool)
    words[situations.texts[_IS_LABELLED[situations.kinds.long()]].flatten().long()] = True
    return (words & (weights == 1.0)).nonzero().squeeze(1)


def rename(batch: Batch, vectors: Tensor, labels: Tensor, share: float, draw: torch.Generator) -> tuple[Batch, Tensor]:
    """Give a share of the rows other words on their labels: new ones, with random vectors after `vectors`.

    `labels` are the ids of the words on labels. Instruction and title keep theirs; the history has the new ones.
    """
    old = labels[torch.rand(len(labels), generator=draw) < _RENAMED_WORDS]
    new = torch.arange(len(vectors), dtype=batch.texts.dtype)
    new[old] = len(vectors) + torch.arange(len(old), dtype=new.dtype)
    # On a page that looks unknown itself, the labels are all that is left to read.
    changes = (torch.rand(len(batch.kinds), generator=draw) < share) & (batch.anchors[:, 0] > 0)
    rows = changes.nonzero().squeeze(1)
    part = Batch(*(each[rows] for each in batch))
    read = (part.texts, part.fields, part.last, part.before, part.instruction)
    texts, fields, last, before, said = (new[words.long()] for words in read)
    kinds = part.kinds.long()
    texts = torch.where(_IS_LABELLED[kinds][..., None], texts, part.texts)
    renamed = part._replace(
        texts=texts,
        fields=torch.where(_IS_DATA[kinds][..., None], part.fields, fields),
        last=last,
        before=before,
        instruction_flags=part.instruction_flags * ~((said != part.instruction)[..., None] & _IS_USED_UP),
        # The memory of pairs knows nothing about a label that it never saw.
        codes=part.codes * (texts == part.texts).all(-1),
        anchors=torch.where(_IS_TARGET & (last != part.last).any(-1, keepdim=True), 0, part.anchors),
    )
    random = torch.randn(len(old), vectors.shape[1], generator=draw).to(vectors.dtype) * vectors.detach().std()
    merged = (whole.index_copy(0, rows, some) for whole, some in zip(batch, renamed, strict=True))
    return Batch(*merged), torch.cat([vectors, random])


_ICON, _FINISH = KINDS.index("icon"), KINDS.index("finish")
_OWN_SHARE = 0.9
"""A word or code belongs to an app with at least this share of its appearances."""
_LEAST_ENDS = 2
"""An app is used if attempts at this many instructions end in it; one attempt may have opened it by mistake."""


class App(NamedTuple):
    """An app whose icon some lesson shows."""

    icon: int
    """The code of its icon."""
    words: tuple[int, ...]
    """The ids of the words of its name, and of those that hardly appear in other apps and their instructions."""
    codes: tuple[int, ...]
    """The codes of the candidates and titles that hardly appear in other apps."""
    is_used: bool
    """Whether attempts end in it."""


def strange_apps(apps: Sequence[App], share: float, draw: torch.Generator) -> list[App]:
    """Return the apps that training never uses, and each other app with the probability `share`."""
    chances = torch.rand(len(apps), generator=draw).tolist()
    return [app for app, chance in zip(apps, chances, strict=True) if not app.is_used or chance < share]


def disguise(batch: Batch, vectors: Tensor, strange: Sequence[App], draw: torch.Generator) -> tuple[Batch, Tensor]:
    """Make apps look unknown: random vectors for their words, and no memory of pairs by their codes.

    `vectors` are the (words, width) vectors of all words; returns the batch and the vectors with these changes.
    """
    words = torch.tensor(sorted({word for app in strange for word in app.words}), dtype=torch.long)
    codes = torch.tensor(sorted({code for app in strange for code in (app.icon, *app.codes)}), dtype=torch.long)
    spread = vectors.detach().std()
    random = torch.randn(len(words), vectors.shape[1], generator=draw).to(vectors.dtype) * spread
    is_said = torch.isin(batch.instruction, words.to(batch.instruction.dtype))
    masked = batch._replace(
        codes=batch.codes.masked_fill(torch.isin(batch.codes, codes), 0),
        anchors=batch.anchors.masked_fill(torch.isin(batch.anchors, codes), 0),
        instruction_codes=batch.instruction_codes.masked_fill(is_said, 0),
    )
    return masked, vectors.index_copy(0, words, random)


def apps_of(steps: Sequence[LessonStep]) -> tuple[App, ...]:
    """Return the apps on the launchers of some lessons, by the code of their icon."""
    apps_of_task, ends = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    # By word or code, the number of steps of each app in which it appears.
    words, codes = defaultdict[int, Counter[str]](Counter), defaultdict[int, Counter[str]](Counter)
    launchers = {step.policy_input.title for step in steps if _ICON in step.policy_input.situation.kinds}
    icons: dict[str, tuple[int, list[int]]] = {}
    for step in steps:
        situation, instruction = step.policy_input.situation, step.user.instruction
        for at in (situation.kinds == _ICON).nonzero()[0].tolist():
            named = [word for word in situation.texts[at].tolist() if word]
            icons[step.policy_input.candidates[at].text] = int(situation.codes[at]), named
        # A step is taken in the app that was opened last.
        opened = (c.target for c in reversed(step.policy_input.conclusions) if c.title in launchers)
        app = "" if step.policy_input.title in launchers else next(opened, "")
        if not app:
            continue
        texts = (situation.title, situation.shown, situation.texts.ravel(), situation.fields.ravel())
        for word in {word for each in texts for word in each.tolist()}:
            words[word][app] += 1
        for code in {*situation.codes.tolist(), int(situation.anchors[0])}:
            codes[code][app] += 1
        apps_of_task[instruction].add(app)
        if situation.kinds[step.label] == _FINISH:
            ends[app].add(instruction)
    for step in steps:
        apps = list(apps_of_task[step.user.instruction])
        for word in set(step.policy_input.situation.instruction.tolist()) if len(apps) == 1 else ():
            words[word][apps[0]] += 1
    own_words, own_codes = _own(words), _own(codes)
    return tuple(
        App(
            code,
            tuple(sorted({*named, *own_words[name]})),
            tuple(sorted(own_codes[name])),
            len(ends[name]) >= _LEAST_ENDS,
        )
        for name, (code, named) in sorted(icons.items(), key=lambda each: each[1][0])
    )


def _own(counted: Mapping[int, Counter[str]]) -> Mapping[str, set[int]]:
    """Return the words or codes that belong to each app; 0 stands for nothing."""
    owned = defaultdict[str, set[int]](set)
    for each, counts in counted.items():
        app, most = counts.most_common(1)[0]
        if each and most >= _OWN_SHARE * counts.total():
            owned[app].add(each)
    return owned
