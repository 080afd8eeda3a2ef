"""The embedded policy learns to find apps that no lesson opens."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest
import torch

from trajmill.schemas.dialects.user_text import UserText
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.models.embedded.network.batch import Bags, bags, collate
from trajmill.stages.models.embedded.network.policy_network import NetworkShape, PolicyNetwork
from trajmill.stages.models.embedded.reading.situation import InputReader, PolicyInput
from trajmill.stages.models.embedded.reading.words import code_of
from trajmill.stages.models.embedded.storage import untrained_network
from trajmill.stages.training.embedded.lesson_batch import Lessons
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.stages.training.embedded.strange_apps import apps_of, disguise
from trajmill.stages.training.embedded.train import train_network

APPS = ("Mail", "Clock", "Stride")
WISHES = {"Mail": "write a letter", "Clock": "set an alarm"}
"""What users want of the apps that lessons open."""
SAYINGS = ("please {wish}", "{wish} now", "use {app} to {wish}")
SMALL = NetworkShape(width=16, word_width=16, layers=1, heads=2)


class Launcher(NamedTuple):
    """Requests on one launcher."""

    reader: InputReader

    def asked(self, instruction: str) -> PolicyInput:
        elements = [
            UIElement("text", "Home screen", Box(0, 0, 720, 60), ("title",)),
            *(
                UIElement("icon", app, Box(0, 100 * at, 90, 100 * at + 90), ("clickable",))
                for at, app in enumerate(APPS, 1)
            ),
        ]
        return self.reader.read(UserText(instruction, (), ()), "launcher", Size(720, 1280), elements, phone=True)

    def lessons(self) -> Lessons:
        wishes = list(product(WISHES, SAYINGS))
        requests = [self.asked(saying.format(app=app, wish=WISHES[app])) for app, saying in wishes]
        labels = [icon_of(app, asked) for (app, _), asked in zip(wishes, requests, strict=True)]
        situations = collate([asked.situation for asked in requests])
        return Lessons(situations, torch.tensor(labels), torch.ones(len(labels)), self.words(), 0)

    def words(self) -> Bags:
        return bags(self.reader.lexicon, range(len(self.reader.lexicon.buckets)))

    def probability(self, network: PolicyNetwork, app: str, instruction: str) -> float:
        """The probability that the policy opens an app."""
        asked, words = self.asked(instruction), self.words()
        with torch.no_grad():
            logits = network(collate([asked.situation]), network.word_vectors(words), words.weights)
        return float(logits[0].softmax(-1)[icon_of(app, asked)])


def icon_of(app: str, asked: PolicyInput) -> int:
    return next(at for at, candidate in enumerate(asked.candidates) if candidate.text == app)


@pytest.mark.parametrize(("share", "strange"), [(0.0, ("Stride",)), (1.0, APPS)])
def test_an_app_made_strange_has_a_random_name_and_no_code(share: float, strange: tuple[str, ...]) -> None:
    launcher = Launcher(InputReader())
    lessons = launcher.lessons()
    apps = apps_of(lessons)
    vectors = torch.randn(len(lessons.bags.offsets), 4, generator=torch.Generator().manual_seed(1))
    shown = disguise(lessons.situations, vectors, apps, share, torch.Generator().manual_seed(0))
    new = {launcher.reader.lexicon.ids_of(app)[0] for app in strange}
    changed = (shown.vectors != vectors).any(1).nonzero()[:, 0].tolist()
    assert set(changed) == new
    known = {code_of(f"press {app}".casefold()) for app in APPS if app not in strange}
    assert {app.code for app in apps if app.is_opened} == {code_of(f"press {app}".casefold()) for app in WISHES}
    icons = shown.batch.codes[:, [icon_of(app, launcher.asked("")) for app in APPS]]
    assert set(icons.flatten().tolist()) == known | {0}
    is_new = torch.isin(lessons.situations.instruction, torch.tensor(sorted(new), dtype=torch.int32))
    assert (shown.batch.instruction_codes[is_new] == 0).all()
    assert shown.batch.instruction_codes[~is_new].equal(lessons.situations.instruction_codes[~is_new])


@pytest.mark.slow
def test_an_app_that_no_lesson_opens_is_found_by_its_name_and_by_exclusion() -> None:
    launcher = Launcher(InputReader())
    lessons = launcher.lessons()
    network = untrained_network(0, SMALL)
    train_network(network, lessons, EmbeddedSftSpec(min_updates=80, max_updates=80), seed=0)
    assert launcher.probability(network, "Mail", "write a letter") > 0.5
    assert launcher.probability(network, "Stride", "use Stride to write a letter") > 0.5
    assert launcher.probability(network, "Stride", "join a plan") > 0.05, "no lesson says that it is wrong"
