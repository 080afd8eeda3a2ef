from __future__ import annotations

import importlib.util
import json
import pickle
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.training.hugging_face.small_release import FAMILY, write_rl
from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.training.hugging_face.launch import TrainingJob, train_in_this_process
from trajmill.stages.training.hugging_face.spec import TrlSftSpec, TrpoSpec
from trajmill.stages.training.spec import ParentPolicy

pytestmark = pytest.mark.slow

RECIPE = TrpoSpec(batch=2, old_log_probs="recomputed")


def test_a_job_travels_to_another_process_without_keys(tmp_path: Path) -> None:
    recipe = TrlSftSpec(lora_rank=8, lora_modules=("q_proj",))
    parent = ParentPolicy(tmp_path / "model", tmp_path / "adapter", FAMILY)
    frozen = {"executor": OpenAiSpec(model="tiny", urls=("http://localhost:1",))}
    job = TrainingJob(recipe, parent._replace(frozen=frozen), tmp_path / "release", 2**40, tmp_path / "new")
    assert pickle.loads(job._replace(variables={"KEY": "secret"}).pickled()) == job


def test_missing_packages_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = ParentPolicy(build_tiny_vlm(tmp_path / "model"), family=FAMILY)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInputError, match=r"needs trl and accelerate and peft: pip install 'trajmill\[train\]'"):
        TrlSftSpec(lora_rank=4).train(parent, tmp_path, 0, tmp_path / "new")


@pytest.mark.parametrize(("python", "said"), [("/bin/false", "ended with status 1"), ("/bin/true", "without a report")])
def test_a_process_that_reports_nothing_gives_one_error_line(python: str, said: str, tmp_path: Path) -> None:
    parent = ParentPolicy(build_tiny_vlm(tmp_path / "model"), family=FAMILY)
    with pytest.raises(TrainingFailedError, match=said):
        RECIPE.model_copy(update={"python": python}).train(parent, tmp_path, 0, tmp_path / "new")


@pytest.mark.parametrize("bad_input", [True, False])
def test_the_error_of_the_process_is_raised_here(bad_input: bool, tmp_path: Path) -> None:
    parent = ParentPolicy(build_tiny_vlm(tmp_path / "model"), family=FAMILY)
    told = json.dumps({"error": "what was wrong", "bad_input": bad_input})
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho 'trajmill update 3 4'\necho '{told}' > $4\n")
    python.chmod(0o755)
    done: list[tuple[int, int]] = []
    with pytest.raises(BadInputError if bad_input else TrainingFailedError, match=r"^what was wrong$"):
        RECIPE.model_copy(update={"python": str(python)}).train(
            parent, tmp_path, 0, tmp_path / "new", lambda update, updates: done.append((update, updates))
        )
    assert done == [(3, 4)]
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["training.log"]


@pytest.mark.slow
def test_two_processes_train_what_one_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate", reason="the extra `train` is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    write_rl(tmp_path / "release", [{} for _ in range(4)])
    parent = ParentPolicy(build_tiny_vlm(tmp_path / "model"), family=FAMILY)
    recipe = RECIPE.model_copy(update={"learning_rate": 1e-3, "divergence": 0.1})
    alone = train_in_this_process(TrainingJob(recipe, parent, tmp_path / "release", 0, tmp_path / "alone"))
    done: list[tuple[int, int]] = []
    report = recipe.model_copy(update={"processes": 2}).train(
        parent, tmp_path / "release", 0, tmp_path / "both", lambda update, updates: done.append((update, updates))
    )
    assert done == [(0, 2), (1, 2), (2, 2)]
    assert report._replace(loss=0.0) == alone._replace(loss=0.0)
    assert report.loss == pytest.approx(alone.loss, abs=1e-5)
    before, one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "alone", "both"))
    for name in before:
        moved = (one[name] - before[name]).abs().max()
        assert (one[name] - two[name]).abs().max() <= 1e-2 * moved + 1e-6, name
