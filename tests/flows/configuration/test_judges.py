"""The `[judge]` section, and the judge that it asks for."""

from __future__ import annotations

from pathlib import Path

from trajmill.flows.configuration.config import Config, JudgeSection, model_of
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.judges import own_judge
from trajmill.stages.critics.base import Ask

THREE_SERVERS = """
[judge]
votes = 3
quorum = 2
resolutions = [0.5, 1.0]
ask = "needed"
[endpoints.judge]
model = "judge-72b"
urls = ["http://127.0.0.1:9/v1"]
[endpoints.other]
model = "other-32b"
urls = ["http://127.0.0.1:9/v1"]
[models.critic]
step = "judge"
text = ["judge"]
multimodal = ["judge", "other"]
"""


def loaded(folder: Path, text: str) -> Config:
    path = folder / "trajmill.toml"
    path.write_text(text)
    return load_config(path)


def test_roles_votes_and_resolutions_become_a_judge(tmp_path: Path) -> None:
    config = loaded(tmp_path, THREE_SERVERS)
    judge = own_judge(config)
    assert str(judge.rule) == "consensus(text:2of3,multimodal:0.5:2of3/2models>full:2of3/2models)"
    assert judge.spec.ask is Ask.NEEDED and judge.spec.tries == 2
    assert judge.critics.step == model_of(config, "judge")
    assert judge.critics.multimodal == (model_of(config, "judge"), model_of(config, "other"))
    assert judge.critics.describer is None
    assert str(own_judge(Config()).rule) == "consensus(text,multimodal)"
    assert own_judge(Config()).spec.ask is Ask.CHANNELS


def test_names_of_endpoints_and_prompt_files_make_no_other_judge(tmp_path: Path) -> None:
    [packaged] = (Path(__file__).parents[3] / "trajmill/stages/critics/model/prompts").glob("critic_text-*.md")
    (tmp_path / "one.md").write_text(packaged.read_text())
    (tmp_path / "two.md").write_text(packaged.read_text())
    first = loaded(tmp_path, THREE_SERVERS + '[prompts]\ncritic_text = "one.md"\n')
    second = loaded(tmp_path, THREE_SERVERS.replace("other", "second") + '[prompts]\ncritic_text = "two.md"\n')
    third = loaded(tmp_path, THREE_SERVERS.replace("judge-72b", "judge-7b"))
    renamed = second.endpoints["second"].model_copy(update={"model": "other-32b"})
    second = second.model_copy(update={"endpoints": {**second.endpoints, "second": renamed}})
    assert own_judge(first).identity == own_judge(second).identity
    assert own_judge(first).identity != own_judge(third).identity
    assert Config(judge=JudgeSection(concurrency=512)).run_id == Config().run_id, "it decides no row"
    assert Config(judge=JudgeSection(votes=2)).run_id != Config().run_id
