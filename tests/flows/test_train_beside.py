"""Models beside the policy are trained on what a run has stored: a judge, and a process reward model that then acts."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.flows.command_line import CommandLine
from tests.flows.runs import changed, endpoints_at, judged_config, opinion
from tests.stages.agents.test_candidates import BACK, TAP, policy, view
from tests.stages.models.fault_server import FaultServer
from tests.stages.models.pictures import plain
from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.rollout.toy import toy_query
from trajmill.flows.configuration.config import Config, NamedJudgeSection
from trajmill.flows.configuration.tables import config_as_toml
from trajmill.flows.judging import calibrate, rejudge
from trajmill.flows.tasks.train import train_beside
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.candidates import PROMPT
from trajmill.stages.agents.spec import EndToEndSpec
from trajmill.stages.models.local.folder import TransformersSpec
from trajmill.stages.models.prompts import load_prompt
from trajmill.stages.training.hugging_face.launch import train_in_this_process
from trajmill.stages.training.hugging_face.spec import TrlSftSpec
from trajmill.stages.training.spec import RECIPES
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow
for package in ("accelerate", "trl"):
    pytest.importorskip(package, reason="the extra `train` is not installed")

LONG = 8192
VOTES = {"channels": ("multimodal",), "votes": 1, "resolutions": (1.0,), "tries": 1}
SMALL = {"model": "small", "batch": 2, "learning_rate": 2e-3, "final_rate": 1.0, "lora_rank": 0, "lora_alpha": None}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with tokens for the words of its prompt, and room for the screens of a trajectory."""
    prompt = load_prompt(*PROMPT)
    folder = build_tiny_vlm(tmp_path_factory.mktemp("model"), 0, [prompt.system, prompt.user, *StepLabel] * 2, 1200)
    for name in ("config.json", "tokenizer_config.json"):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace("2048", str(LONG)))
    return folder


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of its own takes ten seconds to import."""
    monkeypatch.setattr(
        "trajmill.stages.training.hugging_face.launch.launch_training",
        lambda job, progress: train_in_this_process(job, progress=progress),
    )


def config_of(root: Path, model: Path, url: str = "http://127.0.0.1:9/v1") -> Config:
    small = TransformersSpec(model=model, family="qwen2.5-vl", max_pixels=16 * 28 * 28)
    updates = {"judge-sft": 2, "prm": 20}
    return changed(
        judged_config(root),
        endpoints={"small": small, **endpoints_at(url)},
        judges={"teacher": NamedJudgeSection.model_validate(VOTES | {"multimodal": ("tiny", "other")})},
        recipes={
            kind: RECIPES.default_spec(kind, TrlSftSpec, SMALL | {"max_updates": most, "epochs": most})
            for kind, most in updates.items()
        },
    )


def examples(root: Path, kind: str) -> list[Example]:
    return [row for row in read_rows(open_warehouse(root), Example) if row.kind == kind]


def losses(folder: Path) -> list[float]:
    return [update["loss"] for update in json.loads((folder / "metrics.json").read_text())["history"]]


def test_a_judge_learns_the_verdicts_that_rewards_confirm_and_is_measured_on_other_queries(
    root: Path, tiny: Path, judges: FaultServer
) -> None:
    config, warehouse = config_of(root, tiny, judges.url), open_warehouse(root)
    versions = read_rows(warehouse, PolicyVersion)
    # `other` finds everything wrong: both verdicts are right somewhere.
    judges.writes = lambda body: opinion(body | {"messages": "?"})
    rejudge(config, "teacher")
    made = train_beside(config, "judge-sft")
    queries = {row.query_id: row.split for row in read_rows(warehouse, Query)}
    attempts = {row.trajectory_id: row for row in read_rows(warehouse, Trajectory)}
    rows = examples(root, "judge")
    for row in rows:
        assert queries[row.query_id] is Split.TRAIN
        said = json.loads(row.messages[-1].content)["correct"]
        assert said is (attempts[row.trajectory_id].reward == 1.0) is (row.variant == "verdict_correct")
    smaller = min(sum(row.variant == side for row in rows) for side in ("verdict_correct", "verdict_incorrect"))
    assert made.report.rows == 2 * smaller > 0, "as many of one verdict as of the other"
    assert losses(made.folder)[-1] < losses(made.folder)[0] and (made.folder / "model.safetensors").is_file()
    assert read_rows(warehouse, PolicyVersion) == versions, "a judge is no policy"
    (measured,) = calibrate(config, ["teacher"], heldout=True)
    held_out = [row for row in attempts.values() if queries[row.query_id] is not Split.TRAIN]
    known = [row for row in held_out if row.status == "finished" and row.purpose is Purpose.EVALUATE]
    assert (measured.rows[-1].trajectories, measured.labels) == (len(known), "held-out attempts")


def test_a_process_reward_model_learns_labels_and_rates_candidates(root: Path, tiny: Path) -> None:
    made = train_beside(config_of(root, tiny), "prm")
    rows = examples(root, "prm")
    assert made.report.rows <= len(rows) and {row.variant for row in rows} <= {"good", "neutral", "harmful"}
    rater = TransformersSpec(model=made.folder, family="qwen2.5-vl", max_pixels=16 * 28 * 28).connect({})
    given = AgentModel(policy(TAP, BACK), ANY, 1.0, roles={"prm": rater})
    shown = Observation(plain("white"), None, "")
    agent = EndToEndSpec(candidates=2, prm="small").open(given)(toy_query())
    decision = asyncio.run(agent.act(replace(view(), observation=shown)))
    scores = [float(line.split()[0]) for line in decision.role_outputs["candidates"].splitlines()]
    assert len(scores) == 2 and all(0 < score < 1 for score in scores)
    assert decision.action == (TAP if scores[0] >= scores[1] else BACK)


def test_a_recipe_that_cannot_train_gives_one_line(
    root: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: CommandLine
) -> None:
    config = config_of(root, tiny)
    with pytest.raises(BadInputError, match=r"\[recipes\] has no 'judgesft'; did you mean judge-sft"):
        train_beside(config, "judgesft")
    monkeypatch.chdir(tmp_path)
    text = config_as_toml(changed(config, run={"root": root}))
    for before, after, said in (
        ('model = "small"', 'model = ""', "recipes.judge-sft.model is missing: the NAME of the [endpoints.NAME]"),
        ('model = "small"', 'model = "smal"', "there is no [endpoints.smal]; did you mean small?"),
        (str(tiny), str(tmp_path), "has no folder of weights that kind 'trl-sft' trains; set its weights"),
    ):
        Path("trajmill.toml").write_text(text.replace(before, after))
        assert said in command.failed("train", "--recipe", "judge-sft")
    Path("trajmill.toml").write_text('[train]\nkind = "judge-sft"\n')
    assert "trains no policy; put it in [recipes.NAME] and run" in command.refused("config")
