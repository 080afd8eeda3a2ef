import json
import sys
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.models.embedded.model import save_network, untrained_network
from trajmill.stages.training.command import CommandSpec, bounded_model
from trajmill.stages.training.spec import ParentPolicy, TrainingReport

pytestmark = pytest.mark.slow

TRAINER = """
import json, pathlib, sys
from safetensors.numpy import load_file, save_file
release, model, out = map(pathlib.Path, sys.argv[1:4])
assert (release / "rows").read_text() == "rows", release
history = [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}, {"step": 2, "train_runtime": 3.0}]
for step in (1, 2):
    folder = out / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    weights = load_file(model / "model.safetensors")
    save_file({name: value + step for name, value in weights.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text((model / "config.json").read_text())
    (folder / "optimizer.pt").write_text("large")
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history[:step]}))
print("trained with seed", sys.argv[4])
"""


@pytest.fixture
def parent(tmp_path: Path) -> ParentPolicy:
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"weight": torch.zeros(2)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "qwen2_5_vl"}')
    (folder / "tokenizer.json").write_text("words")
    return ParentPolicy(folder)


def train(script: str, parent: ParentPolicy, tmp_path: Path, seed: int = 7, form: str = "") -> TrainingReport:
    release = tmp_path / "release"
    release.mkdir(exist_ok=True)
    (release / "rows").write_text("rows")
    program = parent.folder.parent / "train.py"
    program.write_text(script)
    command = (sys.executable, str(program), "{release}", "{model}", "{out}", "{seed}", "--adapter={adapter}")
    return CommandSpec(command=command, format=form).train(parent, release, seed, tmp_path / "new")


def test_the_last_checkpoint_is_taken_over_with_log_and_losses(parent: ParentPolicy, tmp_path: Path) -> None:
    report = train(TRAINER, parent, tmp_path)
    new = tmp_path / "new"
    assert load_file(new / "model.safetensors")["weight"].tolist() == [2.0, 2.0]
    assert (new / "tokenizer.json").read_text() == "words"
    assert (new / "training.log").read_text() == "trained with seed 7\n"
    assert report.updates == 2 and report.loss == 0.25 and report.version.startswith("command-")
    assert json.loads((new / "metrics.json").read_text())["history"][0] == {"update": 1, "loss": 0.5}
    assert json.loads((new / "made_from.json").read_text())["seed"] == 7
    assert not (new / "out").exists() and not (new / "optimizer.pt").exists()


def test_an_adapter_is_taken_over(parent: ParentPolicy, tmp_path: Path) -> None:
    script = (
        "import pathlib, sys; from safetensors.numpy import save_file; import numpy; out = pathlib.Path(sys.argv[3]); "
        "assert sys.argv[5:] == ['--adapter=' + sys.argv[2]]; "
        "save_file({'a': numpy.ones(1)}, out / 'adapter_model.safetensors'); "
        "(out / 'adapter_config.json').write_text('{}')"
    )
    train(script, parent._replace(adapter=parent.folder), tmp_path)
    names = {file.name for file in (tmp_path / "new").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors"} <= names and "tokenizer.json" not in names


def test_what_an_interrupted_command_left_is_there_for_the_next(parent: ParentPolicy, tmp_path: Path) -> None:
    script = (
        "import pathlib, sys; kept = pathlib.Path(sys.argv[3]) / 'kept'; there = kept.exists(); kept.write_text(''); "
        "print('again' if there else 'first'); sys.exit(1)"
    )
    for said in ("first", "again"):
        with pytest.raises(TrainingFailedError, match=f"its last line is '{said}'"):
            train(script, parent, tmp_path)
    with pytest.raises(TrainingFailedError, match="its last line is 'first'"):
        train(script, parent, tmp_path, seed=8)


def test_a_trainer_that_leaves_no_such_model_gives_one_error_line(parent: ParentPolicy, tmp_path: Path) -> None:
    with pytest.raises(TrainingFailedError, match="ended well, but left no model under"):
        train("pass", parent, tmp_path)
    with pytest.raises(TrainingFailedError, match="ended well, but its last loss is nan"):
        train(TRAINER.replace("0.25", "float('nan')"), parent, tmp_path)


def test_a_run_of_the_embedded_policy_is_left_alone(tmp_path: Path) -> None:
    save_network(untrained_network(0), tmp_path / "embedded")
    assert not CommandSpec(command=("true",)).trains(tmp_path / "embedded")
    with pytest.raises(BadInputError, match="no model in Hugging Face's layout"):
        train("pass", ParentPolicy(tmp_path / "embedded"), tmp_path)


def test_a_wrong_placeholder_or_format_gives_one_error_line() -> None:
    with pytest.raises(ValidationError, match=r"unknown placeholder \{realease\}; did you mean release\?"):
        CommandSpec(command=("train", "--data={realease}"))
    with pytest.raises(ValidationError, match="no export format of kind 'swifft'; did you mean swift"):
        CommandSpec(command=("train",), format="swifft")
    spec = CommandSpec(command=("train",), format="swift")
    assert spec.takes is not None and spec.takes.model_fields["kind"].default == "swift"


@pytest.mark.parametrize(
    "more", [("--max_pixels", "589824"), ("data.kwargs.max_pixels=589824",), (), ("image_max_pixels=589824",)]
)
def test_other_pixel_bounds_are_refused_early(more: tuple[str, ...], parent: ParentPolicy, tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.mkdir()
    (release / "llamafactory.yaml").write_text("image_max_pixels: 2073600\n")
    variables = {} if more else {"MAX_PIXELS": "589824"}
    spec = CommandSpec(command=("false", "--model={model}", *more), format="llamafactory", variables=variables)
    served = parent._replace(family=family_named("qwen2.5-vl").within(1_003_520))
    with pytest.raises(BadInputError, match=r"(?i)_pixels is 589824, but the targets are written for pictures of "):
        spec.train(served, release, 1, tmp_path / "new")


def test_a_trainer_that_read_another_processor_is_refused(parent: ParentPolicy, tmp_path: Path) -> None:
    saved = "(folder / 'preprocessor_config.json').write_text('{\"max_pixels\": 12845056}')"
    script = TRAINER.replace('(folder / "optimizer.pt").write_text("large")', saved)
    served = parent._replace(family=family_named("qwen2.5-vl").within(1_003_520))
    with pytest.raises(TrainingFailedError, match="up to 12845056 pixels, but the targets are written for 1003520"):
        train(script, served, tmp_path, form="swift")


def test_the_model_of_a_command_has_the_pixel_bounds_of_the_endpoint(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "preprocessor_config.json").write_text('{"patch_size": 14, "min_pixels": 3136, "max_pixels": 12845056}')
    (model / "processor_config.json").write_text('{"image_processor": {"size": {"longest_edge": 12845056}}}')
    budget = family_named("qwen2.5-vl").within(1_003_520).budget
    view = bounded_model(model, budget, tmp_path / "view")
    read = [json.loads((view / name).read_text()) for name in ("preprocessor_config.json", "processor_config.json")]
    for images in (read[0], read[1]["image_processor"]):
        assert images["max_pixels"] == images["size"]["longest_edge"] == 1_003_520 and images["min_pixels"] == 3136
    assert read[0]["patch_size"] == 14 and (view / "config.json").resolve() == model / "config.json"
