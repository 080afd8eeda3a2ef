import pytest
import torch
from torch import Tensor

from tests.stages.models.toy import SIZE, element, observe
from trajmill.schemas.dialects.user_text import read
from trajmill.schemas.observation import Observation
from trajmill.stages.models.embedded.batch import Bags, bags, collate, grid_of
from trajmill.stages.models.embedded.candidates import is_open
from trajmill.stages.models.embedded.model import untrained_network
from trajmill.stages.models.embedded.policy_network import MATCHES, Hidden, PolicyNetwork, match_words
from trajmill.stages.models.embedded.situation import Batch, InputReader

SCREEN = observe(
    element("heading", "Margherita", "title"),
    element("radio", "Small", "clickable", value="Size"),
    element("radio", "Large", "clickable", "selected", value="Size"),
    element("switch", "Extra spicy", "clickable"),
    element("text", "Quantity", value="2"),
    element("button", "Place order", "clickable"),
)


class Seen:
    """One or more instructions on the same screen, as the network sees them."""

    def __init__(self, *instructions: str, screen: Observation = SCREEN) -> None:
        reader = InputReader()
        users = [read(f"The user query: {instruction}") for instruction in instructions]
        elements = screen.elements or ()
        views = [reader.read(user, screen.screen.screen_id, SIZE, elements, phone=True) for user in users]
        self.names = [candidate.text or candidate.verb for candidate in views[0].candidates]
        self.batch: Batch = collate([policy_input.situation for policy_input in views])
        self.bags: Bags = bags(reader.lexicon, range(len(reader.lexicon.buckets)))

    def logits(self, network: PolicyNetwork, hidden: Hidden | None = None) -> Tensor:
        found: Tensor = network(self.batch, network.word_vectors(self.bags), self.bags.weights, hidden)
        return found

    def match(self, name: str) -> dict[str, float]:
        places = grid_of(self.batch.exists)
        texts, fields, flags = (places.take(x) for x in (self.batch.texts, self.batch.fields, self.batch.flags))
        scalars = match_words(self.batch, texts, fields, places, is_open(flags), self.bags.weights).scalars
        return dict(zip(self.names, scalars[:, MATCHES.index(name)].tolist(), strict=True))


def test_untrained_networks_differ_in_nothing_that_shows() -> None:
    seen = Seen("order a large Margherita, extra spicy", "something else")
    first, second = (seen.logits(untrained_network(seed)) for seed in (1, 2))
    assert torch.equal(first, second)
    assert first[0].argmax().item() == seen.names.index("Extra spicy")


def test_words_that_the_user_said_match_and_a_distractor_is_named_and_not_yet_chosen() -> None:
    seen = Seen("order a large Margherita, extra spicy")
    said = seen.match("text_said")
    assert said["Extra spicy"] == said["Large"] == pytest.approx(1.0)
    assert said["Place order"] == pytest.approx(0.5) and said["Small"] == said["finish"] == 0
    rival, leads = seen.match("rival"), seen.match("leads")
    assert rival["Place order"] == rival["finish"] == pytest.approx(1.0)
    assert (leads["Extra spicy"], leads["Large"], leads["finish"]) == (1.0, 0.0, 0.0)
    assert rival["Extra spicy"] == pytest.approx(0.5)


def test_an_empty_memory_of_pairs_finds_no_pair() -> None:
    seen = Seen("order a big Margherita", "order a tiny Margherita")
    network = untrained_network(0)
    before = seen.logits(network)
    with torch.no_grad():
        network.pairs.table.weight.normal_(generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros_like(seen.batch.instruction, dtype=torch.bool)
    silent = seen.logits(network, Hidden(nothing, torch.tensor([True, False])))
    assert torch.allclose(silent[0], before[0])
    assert not torch.allclose(silent[1], before[1])


SHORT = observe(element("heading", "Small", "title"), element("button", "Place order", "clickable"))
HINT = 'Guidance:\n1. Tap "Large" in Size.\n2. Place it'
DONE = 'Task progress (done on this device so far): Step 1: Tapped "Place order" on "Small".'


def test_padding_changes_nothing() -> None:
    draw, network, reader = torch.Generator().manual_seed(0), untrained_network(0).double(), InputReader()
    asked = ((f"order a large Margherita\n{HINT}", SCREEN), (f"have two\n{DONE}", SHORT), ("something else", SCREEN))
    rows = [
        reader.read(read(f"The user query: {text}"), seen.screen.screen_id, SIZE, seen.elements or (), phone=True)
        for text, seen in asked
    ]
    words = bags(reader.lexicon, range(len(reader.lexicon.buckets)))
    batch, alone = (collate([row.situation for row in some]) for some in (rows, rows[1:2]))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw).double() * 0.1)
        vectors, weights = network.word_vectors(words), words.weights.double()
        logits, (found,) = network(batch, vectors, weights), network(alone, vectors, weights)
        assert torch.allclose(logits[1, : len(found)], found, atol=1e-9)
        assert logits[1, len(found) :].eq(-torch.inf).all()
