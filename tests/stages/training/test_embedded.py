import asyncio
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.stages.models.toy import DISHES, SIZES, ToyPhone
from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.screen import ELEMENT
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.models.embedded.model import (
    embedded_model,
    load_network,
    network_version,
    save_network,
    untrained_network,
)
from trajmill.stages.models.embedded.policy_network import NetworkShape, PolicyNetwork
from trajmill.stages.training.embedded.lessons import SeenScreen, Turn, rl_turns, seen_screens, sft_turns
from trajmill.stages.training.embedded.spec import EmbeddedRlSpec, EmbeddedSftSpec
from trajmill.stages.training.embedded.train import (
    Lessons,
    chosen_log_probabilities,
    lessons,
    train_network,
    train_policy,
    trajectory_loss,
)
from trajmill.stages.training.spec import ParentPolicy

pytestmark = pytest.mark.slow

SAID = {"Small": "tiny", "Medium": "normal", "Large": "huge"}
"""What the user calls the sizes: words that are not on the screen and have to be learned."""
SMALL = NetworkShape(width=16, word_width=16, layers=1, heads=2)
RECIPE = EmbeddedSftSpec(min_updates=60, max_updates=60, batch=32, learning_rate=5e-3)


@dataclass
class ToyEpisode:
    turns: list[Turn] = field(default_factory=list)
    screens: dict[str, SeenScreen] = field(default_factory=dict)
    won: bool = False


async def play_one(agent: EndToEndAgent, seed: int, guided: bool) -> ToyEpisode:
    dish, size = DISHES[seed % 5], SIZES[(seed // 5) % 3]
    phone, history, episode = ToyPhone(seed), list[Decision](), ToyEpisode()
    hint = f'1. Tap "{dish}".\n2. Tap "{size}" in Size.\n3. Tap "Place order".' if guided else None
    while not phone.finished and len(history) < 8:
        seen = phone.look()
        query = f"please order {dish}, a {SAID[size]} one"
        decision = await agent.act(EpisodeView(query, hint, seen, tuple(history), seed))
        history.append(decision)
        assert decision.action is not None and seen.elements is not None
        phone.step(decision.action)
        system, screen_id = str(decision.calls[0].request.messages[0].parts[0]), seen.screen.screen_id
        turn = Turn(system, decision.prompt, decision.raw_response, screen_id, 1.0, f"episode-{seed}", len(history) - 1)
        episode.turns.append(turn)
        episode.screens[screen_id] = SeenScreen(seen.screen.size, seen.elements)
    episode.won = phone.won(dish, size)
    return episode


def play(network: PolicyNetwork, seeds: range, *, guided: bool = False, temperature: float = 1.0) -> list[ToyEpisode]:
    agent = EndToEndAgent(embedded_model(network), Platform.PHONE, temperature)

    async def all_at_once() -> list[ToyEpisode]:
        return list(await asyncio.gather(*(play_one(agent, seed, guided) for seed in seeds)))

    return asyncio.run(all_at_once())


def collected(episodes: list[ToyEpisode]) -> Lessons:
    screens = {name: screen for episode in episodes for name, screen in episode.screens.items()}
    return lessons([turn for episode in episodes for turn in episode.turns], screens)


@pytest.fixture(scope="module")
def guided_successes() -> list[ToyEpisode]:
    won = [episode for episode in play(untrained_network(0, SMALL), range(60), guided=True) if episode.won]
    assert len(won) > 15
    return won


def test_it_learns_a_task_from_guided_successes(guided_successes: list[ToyEpisode]) -> None:
    network = untrained_network(0, SMALL)
    before = sum(episode.won for episode in play(network, range(100, 130), temperature=0.0))
    report = train_network(network, collected(guided_successes), RECIPE, seed=1)
    after = sum(episode.won for episode in play(network, range(100, 130), temperature=0.0))
    assert report.skipped == 0 and report.updates == 60
    assert before <= 15 and after >= 26


def test_trajectory_level_rl_makes_what_was_rewarded_more_likely() -> None:
    network = untrained_network(0, SMALL)
    episodes = play(network, range(120))
    rate = sum(episode.won for episode in episodes) / len(episodes)
    assert 0 < rate < 0.5
    for episode in episodes:
        share = (float(episode.won) - rate) / len(episode.turns)
        episode.turns = [turn._replace(weight=share) for turn in episode.turns]
    recipe = EmbeddedRlSpec(epochs=16, batch=128, learning_rate=1e-2)
    train_network(network, collected(episodes), recipe, seed=0)
    again = sum(episode.won for episode in play(network, range(120))) / 120
    assert again > rate + 0.1


def write_release(folder: Path, episodes: list[ToyEpisode], *, blocks: bool = True) -> None:
    def message(role: str, text: str) -> object:
        parts = [{"type": "text", "text": text}, {"type": "image", "text": ""}]
        return {"role": role, "content": parts if blocks else text + "<image>"}

    supervised, rl = [], []
    for turn in (turn for episode in episodes for turn in episode.turns):
        place = {"screen_ids": [turn.screen_id], "trajectory_id": turn.trajectory_id, "step_index": turn.step_index}
        said = [("system", turn.system), ("user", turn.user)]
        learned = {"completion": [message("assistant", turn.reply)], "loss_weight": 1.0}
        supervised.append({**place, "prompt": [message(*each) for each in said], **learned})
        weighed = {"response": turn.reply, "advantage": 2.0, "step_weight": 0.25}
        rl.append({**place, "prompt": [{"role": role, "content": text} for role, text in said], **weighed})
    seen = {name: screen for episode in episodes for name, screen in episode.screens.items()}
    sizes = {"width": [screen.size.width for screen in seen.values()]}
    sizes |= {"height": [screen.size.height for screen in seen.values()]}
    elements = [[element._asdict() for element in screen.elements] for screen in seen.values()]
    screens = pa.table({"screen_id": list(seen), **sizes, "elements": pa.array(elements, pa.list_(ELEMENT))})
    files = {"trl/sft": pa.Table.from_pylist(supervised), "verl/rl": pa.Table.from_pylist(rl), "screens": screens}
    for name, table in files.items():
        (folder / f"{name}.parquet").parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"{name}.parquet")


def test_a_policy_is_trained_from_the_files_of_a_release(guided_successes: list[ToyEpisode], tmp_path: Path) -> None:
    in_memory, release = collected(guided_successes), tmp_path / "release"
    for blocks in (False, True):
        write_release(release, guided_successes, blocks=blocks)
        found = lessons(sft_turns(release), seen_screens(release))
        assert torch.equal(found.labels, in_memory.labels)
        assert torch.equal(found.situations.texts, in_memory.situations.texts)
    weighted = lessons(rl_turns(release), seen_screens(release))
    assert torch.equal(weighted.weights, torch.full((len(in_memory),), 0.5))
    save_network(untrained_network(0, SMALL), tmp_path / "parent")
    recipe = RECIPE.model_copy(update={"min_updates": 4, "max_updates": 4})
    seen: list[tuple[int, int]] = []
    report = train_policy(
        ParentPolicy(tmp_path / "parent"), release, recipe, 1, tmp_path / "new", lambda *count: seen.append(count)
    )
    assert seen == [(done, 4) for done in range(5)]
    trained = untrained_network(0, SMALL)
    train_network(trained, in_memory, recipe, 1)
    assert network_version(load_network(tmp_path / "new")) == network_version(trained)
    made = json.loads((tmp_path / "new" / "made_from.json").read_text())
    assert made["kind"] == "embedded-sft" and made["seed"] == 1
    assert json.loads((tmp_path / "new" / "metrics.json").read_text())["loss"] == report.loss


def test_what_cannot_be_trained_has_no_policy(guided_successes: list[ToyEpisode], tmp_path: Path) -> None:
    write_release(tmp_path / "release", guided_successes[:3])
    network = untrained_network(0, SMALL)
    save_network(network, tmp_path / "parent")
    parent = ParentPolicy(tmp_path / "parent")
    with pytest.raises(BadInputError, match="a file of the release cannot be read"):
        RECIPE.train(parent, tmp_path / "nowhere", 0, tmp_path / "new")
    network.score.weight.data.fill_(float("nan"))
    save_network(network, tmp_path / "nan")
    with pytest.raises(TrainingFailedError, match="the loss is nan: lower"):
        EmbeddedRlSpec(max_updates=2).train(ParentPolicy(tmp_path / "nan"), tmp_path / "release", 0, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_rows_that_cannot_be_learned_from_are_counted(guided_successes: list[ToyEpisode]) -> None:
    episode = guided_successes[0]
    turns = [
        episode.turns[0],
        episode.turns[0]._replace(reply="no call at all"),
        episode.turns[0]._replace(screen_id="unknown"),
        episode.turns[0]._replace(reply=episode.turns[0].reply.replace('"coordinate": [', '"coordinate": [0.0')),
    ]
    found = lessons(turns, episode.screens)
    assert (len(found), found.skipped) == (1, 3)
    nothing = lessons([], {})
    assert train_network(untrained_network(0, SMALL), nothing, RECIPE, 0).updates == 0


def test_equation_3() -> None:
    """Rows of three, one and two actions to choose from; no score is of an action that is not there."""
    none, clip, chosen, advantages = -math.inf, 0.2, (2, 0, 1), (1.25, -0.75, -0.5)
    now = [[0.4, -1.2, 0.9], [0.3, none, none], [1.1, 0.2, none]]
    before = [[0.7, 0.1, -0.8], [-0.5, none, none], [-0.6, 0.4, none]]

    def log_probability(scores: list[float], place: int) -> float:
        return scores[place] - math.log(math.fsum(map(math.exp, scores)))

    terms = []
    for new, old, place, advantage in zip(now, before, chosen, advantages, strict=True):
        ratio = math.exp(log_probability(new, place) - log_probability(old, place))
        terms.append(min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage))
    taken = [chosen_log_probabilities(torch.tensor(each).double(), torch.tensor(chosen)) for each in (now, before)]
    loss = trajectory_loss(taken[0], taken[1], torch.tensor(advantages).double(), clip)
    assert loss.item() == pytest.approx(-math.fsum(terms) / len(terms), rel=1e-6)
