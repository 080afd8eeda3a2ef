import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors.torch import load_file

from tests.stages.models.fault_server import Fault, FaultReply, FaultServer, running_server
from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.training.hugging_face.small_release import FAMILY, shown_row, write_rows
from trajmill.schemas.actions import Action, Click, SystemButton, TypeText
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.formats.folder import FIGURES_FILE, supervised_schema
from trajmill.stages.export.formats.trainers import FeedbackFormat
from trajmill.stages.export.rewards import ReplyTarget
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.training.hugging_face.launch import TrainingJob, train_in_this_process
from trajmill.stages.training.hugging_face.spec import CesStage1Spec, CesStage2Spec, CodaSpecialistSpec, FeedbackRecipe
from trajmill.stages.training.spec import ParentPolicy

pytestmark = pytest.mark.slow
pytest.importorskip("accelerate", reason="the extra `train` is not installed")
SMALL: dict[str, Any] = {"executor": "e", "batch": 2, "samples": 3, "max_tokens": 3, "learning_rate": 1e-3, "epochs": 2}
RECIPES: list[FeedbackRecipe] = [
    CesStage1Spec(**SMALL, rows_at_once=2),
    CesStage2Spec(**SMALL, coordinator="c"),
    CodaSpecialistSpec(**SMALL, app="wallet", lora_rank=2, divergence=0.1),
]


def _answer(body: dict[str, Any]) -> str:
    told = json.dumps([block["text"] for block in body["messages"][-1]["content"] if block["type"] == "text"])
    number = sum(map(ord, told))
    if "### Current state" in told:
        return f"<think>As the state says.</think><answer>Tap {number}.</answer>"
    action: Action = Click(x=42, y=56) if number % 2 else TypeText(text="x")
    return FAMILY.dialect(Platform.PHONE).render(Reply("So.", action, "Done."), FAMILY.frame(SCREEN))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_vlm(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pool(tmp_path_factory.mktemp("pool"))


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        running.writes = _answer
        yield running


def policy(model: Path, server: FaultServer, recipe: FeedbackRecipe) -> ParentPolicy:
    spec = OpenAiSpec(model="tiny", urls=(server.url,), family=FAMILY.name, max_pixels=FAMILY.budget.max_pixels)
    return ParentPolicy(
        model, family=FAMILY, frozen=dict.fromkeys(recipe.role_names, spec.model_copy(update={"attempts": 1}))
    )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
def test_a_role_learns_from_what_the_executor_does(
    recipe: FeedbackRecipe, tiny: Path, pool: Path, server: FaultServer, tmp_path: Path
) -> None:
    if recipe.lora_rank:
        pytest.importorskip("peft", reason="the extra `train` is not installed")
    report = train_in_this_process(TrainingJob(recipe, policy(tiny, server, recipe), pool, 1, tmp_path))
    assert (report.rows, report.updates) == (2, 2), "a state tracker's step without a screen is no task"
    history = json.loads((tmp_path / "metrics.json").read_text())["history"]
    assert all(0 < update["reward"] < 2 and update["clipped"] == 0 for update in history)
    assert max(update["spread"] for update in history) > 0
    made = json.loads((tmp_path / "made_from.json").read_text())
    assert made["kind"] == recipe.kind and made["frozen"].keys() == set(recipe.role_names)
    file = tmp_path / ("adapter_model.safetensors" if recipe.lora_rank else "model.safetensors")
    moved = load_file(file)
    if not recipe.lora_rank:
        before = load_file(tiny / "model.safetensors")
        assert any(not torch.equal(before[name], moved[name]) for name in before)
    asked = [body.body["messages"] for body in server.received]
    pictures = [len(each.pictures) for each in server.received]
    # Qwen2.5-VL's family shows the present screen; CODA's Executor also sees the Planner's, the one before.
    assert max(pictures) == (2 if isinstance(recipe, CodaSpecialistSpec) else 1)
    said = json.dumps(asked)
    assert ("### Current state" in said) is isinstance(recipe, CesStage2Spec)
    assert ("Thought of the Planner" in said) is isinstance(recipe, CodaSpecialistSpec)


def test_a_silent_executor_is_never_a_reward_and_missing_models_and_rows_are_one_line(
    tiny: Path, pool: Path, server: FaultServer, tmp_path: Path
) -> None:
    server.script.extend([FaultReply(Fault.INTERNAL)] * 50)
    with pytest.raises(TrainingFailedError, match="a frozen model did not answer, so no reward is known"):
        train_in_this_process(TrainingJob(RECIPES[0], policy(tiny, server, RECIPES[0]), pool, 1, tmp_path))
    with pytest.raises(BadInputError, match=r"train.executor is missing: the NAME of the \[endpoints.NAME\]"):
        train_in_this_process(TrainingJob(RECIPES[0], ParentPolicy(tiny, family=FAMILY), pool, 1, tmp_path / "a"))
    other = CodaSpecialistSpec(**SMALL, app="mail")
    with pytest.raises(BadInputError, match=r"no row of 'mail' to train on; it has 2 of 'coordinator', 3 of"):
        train_in_this_process(TrainingJob(other, policy(tiny, server, other), pool, 1, tmp_path / "b"))


SCREEN: Final = Size(84, 112)
RIGHT: Final[tuple[Action, ...]] = (Click(x=42, y=56), SystemButton(button="Back"))
BOX: Final = Box(28, 28, 56, 84)
PAST: Final = [["<tool_call>one</tool_call>", "Opened the wallet."]]


def write_pool(release: Path) -> Path:
    variants = {"coordinator": 1, "state_tracker": 0, "wallet": 2}
    rows = [_row(number, *each) for number in range(len(RIGHT)) for each in variants.items()]
    rows.append(_row(7, "state_tracker", 0))
    write_rows(release / "data" / "rows.parquet", rows, supervised_schema(FeedbackFormat()))
    (release / FIGURES_FILE).write_text(json.dumps({"shards": ["data/rows.parquet"]}))
    return release


def _row(number: int, variant: str, screens: int) -> dict[str, Any]:
    ids = list(range(number + 1 - screens, number + 1))
    content = [{"type": "text", "text": f"What is step {number}?"}, *({"type": "image", "text": ""} for _ in ids)]
    right = RIGHT[number % len(RIGHT)]
    box = BOX if isinstance(right, Click) else None
    target = ReplyTarget(
        family=FAMILY.name, platform=Platform.PHONE, action=right, box=box, screen=SCREEN, resized=SCREEN
    )
    past = json.dumps(PAST if variant == "wallet" and number else [])
    named = {"example_id": f"{variant}-{number}", "trajectory_id": "t", "step_index": number, "variant": variant}
    asked = {"instruction": "Open the wallet and go back.", "prompt": [{"role": "user", "content": content}]}
    learned = {"target": target.model_dump_json(), "past": past, "loss_weight": 1.0}
    return shown_row(ids) | named | asked | learned
