import json
import re
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

from trajmill.flows.configuration.config import Config, JudgeSection, model_of
from trajmill.flows.configuration.file import load_config, tasks_unknown_to_judge
from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.configuration.tables import config_as_toml
from trajmill.pipelines.executors.beam import runner_mistake
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.schemas.errors import BadInputError
from trajmill.stages.critics.voting import Ask

ROOT = Path(__file__).parents[3]


def written(folder: Path, text: str) -> Path:
    path = folder / "trajmill.toml"
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    path = written(folder, text)
    with pytest.raises(BadInputError) as caught:
        load_config(path)
    return str(caught.value).replace(f"{path}:", "").splitlines()


def test_the_printed_configuration_reads_back_the_same(tmp_path: Path) -> None:
    tables = {"run": {"name": "night", "seed": 4}, "judge": {"channels": ("text",)}, "train": {"reweight": False}}
    changed = Config.model_validate(tables)
    read = load_config(written(tmp_path, config_as_toml(changed)))
    assert read.run_id == changed.run_id
    assert read.run.root == tmp_path / changed.run.root
    assert read.model_copy(update={"run": changed.run}) == changed
    served = load_config(written(tmp_path, ENDPOINTS))
    assert served.models.critic.text == ("judge", "owl")
    assert load_config(written(tmp_path, config_as_toml(served))) == served


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[run]\n\nround = 3\n", "3: unknown key run.round; did you mean run.rounds?"),
        ("run.seeed = 3\n", "1: unknown key run.seeed; did you mean run.seed?"),
        ("[rolout]\nworkers = 1\n", "1: unknown key rolout; did you mean rollout?"),
        ("[run]\nworkers = 1\n", "2: unknown key run.workers; did you mean rollout.workers?"),
        ("[run]\nseed = 'x'\n", '2: run.seed should be a whole number, not "x"'),
        ("[run]\nname = 'My Run'\n", '2: run.name should have only lower-case letters, digits, - and _, not "My Run"'),
        ("[train]\nkind = 'sft'\n", "2: train.kind: there is no … did you mean embedded-sft?"),
        ("environment.kind = 'browser'\nenvironment.suite = ''\n", "2: environment.suite is no key of kind 'browser'…"),
        ("[models]\npolicy = 'owl'\n[endpoints.owl]\nurls = []\n", "3: endpoints.owl.model is missing"),
        ("[derive]\ndescriber = 'eyes'\n", "2: derive.describer: there is no [endpoints.eyes]; add it …"),
        ("[serve]\nmaintain_cron = '0 0 31 2 *'\n", '2: serve.maintain_cron … (bad day-of-month), not "0 0 31 2 *"'),
        ("[guidance]\ndemonstrate = 'x'\n", "2: guidance.demonstrate should be true or false or 'explorer', not …"),
        ("[release]\nformats = ['trll']\n", "2: release.formats: there is no … did you mean trl?"),
        ("[rollout]\ngroup_size = 400\n", "2: rollout.group_size: a round makes 300 … fewer than a group of 400"),
        ("[rollout]\nbranches = 4\nbranch_share = 0.5\n", "3: rollout.branch_share: guided … lower a share"),
        ("judge.channels = ['text', 'probe']\n", "…rollout.probe is 0: the judge's channel …"),
        ("[rollout]\nprobe = 6\n", "2: rollout.probe: it walks on … name their files in judge.graphs"),
        ("[rollout]\nlargest_group = 2\n", "2: rollout.largest_group: … set both, or set it to 0"),
        ("run.asynchronous = true\nrollout.largest_group = 8\n", "2: rollout.largest_group: … needs one policy; …"),
        ("[release]\nquotas = { app = 0 }\n", "2: release.quotas.app should be more than 0, not 0"),
        ("environment.kind = 'miniwob'\nqueries.fresh = 3\n", "2: queries.fresh: … has no navigation graphs"),
        ("environment.kind = 'desktop'\natomic.programs = ['gimp']\n", "2: atomic.programs should be 'libre…"),
        ("[atomic]\ntrain = 1\n[environment]\nkind = 'miniwob'\n", "1: atomic: its programs … environment.kind = …"),
        ("environment.kind = 'desktop'\natomic.written = 2\n", "2: atomic.written: … map models.writer to an …"),
        ("[train]\nlearning_rate = nan\n", "2: train.learning_rate should be a finite number, not NaN"),
        ("[run]\nseed = " + "9" * 20, "2: run.seed should be at most 9223372036854775807, not " + "9" * 20),
        ('[run]\nroot = "a\\u0000b"\n', "2: run.root has the character NUL, which no name or path can have"),
        ("[beam]\nrunner = 'FlinkRuner'\n", "2: beam.runner: there is no … did you mean FlinkRunner?"),
        ("[beam]\nrunner = 'no.Runner'\n", "2: beam.runner: no.Runner cannot be imported (No module named 'no')"),
        ("beam.options = ['--direct_num_workers=two']\n", "1: beam.options: … invalid int value: 'two'"),
        ("beam.options = ['--direct_running_mode=multi_threading']\n", "1: beam.options: FnApiRunner takes none; …"),
        ("[beam]\nrunner = 'PortableRunner'\n", "1: beam.options: PortableRunner … as --job_endpoint=localhost:8099"),
        ("[environment]\napps = ['mine.yaml']\n", "2: environment.apps: there is no mine.yaml"),
        ("[judge]\nvotes = 2\nquorum = 3\n", "3: judge.quorum should be at most the number of votes, not 3"),
        ("[judge]\nresolutions = [1.0, 0.5]\n", "2: judge.resolutions should rise, cheapest first, not [1.0, 0.5]"),
        ("[judge]\nask = 'all_'\n", "2: judge.ask should be 'needed', 'channels' or 'all', not \"all_\""),
        ("[queries]\ntry_proposals = true\n", "2: queries.try_proposals: … queries.curriculum or queries.screenshot"),
        ("[run\n", "1: not TOML: Expected ']' at the end of a table declaration"),
    ],
)
def test_a_mistake_gives_one_error_line_that_says_where_and_what(tmp_path: Path, text: str, expected: str) -> None:
    (line,) = mistakes(tmp_path, text)
    assert re.fullmatch(".+".join(map(re.escape, expected.split("…"))), line), line


def test_who_only_reads_needs_no_runner(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "[beam]\nrunner = 'no.Runner'\n"), unneeded="beam").beam.runner == "no.Runner"


def test_all_mistakes_are_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "[train]\nbatch = 0\n[run]\nroundz = 1\n[judge]\nfilter = 'no'\n")
    assert [line.split(":")[0] for line in found] == ["2", "4", "6"]


def test_each_lack_of_a_curriculum_and_of_proposals_has_a_line(tmp_path: Path) -> None:
    needed = ["needs queries.example_tasks", "map models.writer"]
    judged = ["map models.critic.text", "map models.critic.multimodal"]
    programmatic = "[judge]\nchannels = ['programmatic']\n"
    for text, lacks in (
        ("curriculum = 2\n", [*needed, *judged]),
        (f"screenshot = 1\n{programmatic}", [*needed, "cannot check"]),
    ):
        found = mistakes(tmp_path, f"[queries]\n{text}")
        assert [lack in line for lack, line in zip(lacks, found, strict=True)] == [True] * len(lacks)


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"nowhere\.toml: there is no such configuration file"):
        load_config(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInputError, match=r"binary\.toml: the configuration file cannot be read"):
        load_config(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"run": {"rounds": 20, "root": Path("elsewhere")}}, True),
        ({"rollout": {"workers": 2, "concurrency": 4}, "serve": {"cron": "0 4 * * *"}}, True),
        ({"atomic": {"programs": ("mousepad",)}}, True),
        ({"endpoints": {"owl": {"model": "owl-7b"}}}, True),
        ({"queries": {"harder_above": 0.5}}, True),
        ({"queries": {"fresh": 5}}, False),
        ({"queries": {"try_proposals": True}}, False),
        ({"run": {"seed": 1}}, False),
        ({"train": {"epochs": 5.0}}, False),
        ({"judge": {"filter_steps": False}}, False),
        ({"atomic": {"train": 1}}, False),
    ],
)
def test_a_run_is_another_one_if_its_rows_are(change: dict[str, object], same: bool) -> None:
    assert (Config.model_validate(change).run_id == Config().run_id) is same


def served(role: str, model: str, url: str = "http://one/v1", name: str = "owl") -> Config:
    endpoints = {name: {"model": model, "urls": (url,)}}
    return Config.model_validate({"models": {role: name}, "endpoints": endpoints})


def test_a_served_model_may_move_but_not_become_another_and_the_policy_may() -> None:
    before = served("writer", "owl-7b").run_id
    assert served("writer", "owl-7b", url="http://two/v1").run_id == before
    assert served("writer", "owl-7b", name="bird").run_id == before
    assert served("writer", "owl-32b").run_id != before
    assert served("describer", "owl-7b").run_id != before
    assert served("policy", "owl-7b").run_id == served("policy", "owl-7b-trained").run_id == Config().run_id


FILES = ("environment.apps", "queries.example_tasks", "prompts.critic_text", "environment.tasks")


@pytest.mark.parametrize("key", FILES)
def test_a_run_is_known_by_the_contents_of_its_files_not_by_their_names(tmp_path: Path, key: str) -> None:
    table, name = key.split(".")

    def run_with(file: str, text: str) -> str:
        (tmp_path / file).write_text(text)
        given = [str(tmp_path / file)] if name == "apps" else str(tmp_path / file)
        kind = {"kind": "browser"} if key == "environment.tasks" else {}
        return Config.model_validate_json(json.dumps({table: {**kind, name: given}})).run_id

    before = run_with("one.txt", "{}")
    assert run_with("other.txt", "{}") == before
    assert run_with("one.txt", "{} changed") != before
    assert Config().run_id != before


ENDPOINTS = """
[models]
policy = "owl"
critic.text = ["judge", "owl"]
[endpoints.owl]
model = "GUI-Owl"
urls = ["http://one/v1"]
[endpoints.judge]
model = "J"
urls = ["http://two/v1"]
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('policy = "owl"', 'policy = "oul"'), "3: models.policy: there is no [endpoints.oul]; did you mean owl?"),
        (('urls = ["http://two/v1"]', ""), "8: endpoints.judge.urls is missing: the base address of its server"),
        (("http://two/v1", ""), "10: endpoints.judge.urls should be addresses of servers, such as http://gpu"),
        (("http://two/v1", "http://two:80x/v1"), "10: endpoints.judge.urls should be addresses of servers"),
        (('model = "J"', 'modell = "J"'), "9: unknown key endpoints.judge.modell; did you mean endpoints.judge."),
    ],
)
def test_a_wrong_endpoint_is_named_with_its_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert any(line.startswith(message) for line in mistakes(tmp_path, ENDPOINTS.replace(*change)))


@pytest.mark.parametrize("file", sorted((ROOT / "docs/examples").glob("*.toml")), ids=lambda file: file.stem)
def test_the_examples_can_be_read_and_judged(file: Path) -> None:
    config = load_config(file)
    assert Path(config.run.root).resolve() == ROOT / "trajmill-data"
    assert tasks_unknown_to_judge(config) is None


def test_a_judge_that_knows_no_task_is_named_with_what_to_do() -> None:
    desktop = {"environment": {"kind": "desktop"}}
    for tables in (
        {"environment": {"kind": "webapp"}},
        desktop | {"judge": {"channels": ("programmatic",)}},
        desktop | {"judge": {"channels": ("text",)}, "models": {"critic": {"text": ("big",)}}},
    ):
        assert tasks_unknown_to_judge(Config.model_validate(tables)) is None
    warning = tasks_unknown_to_judge(Config.model_validate(desktop))
    assert warning is not None and "\n" not in warning
    assert "'desktop'" in warning and "models.critic.text and models.critic.multimodal" in warning
    assert 'judge.channels = ["programmatic"]' in warning


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


def test_roles_votes_and_resolutions_become_a_judge(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, THREE_SERVERS))
    judge = own_judge(config)
    assert str(judge.rule) == "consensus(text:2of3,multimodal:0.5:2of3/2models>full:2of3/2models)"
    assert judge.spec.ask is Ask.NEEDED and judge.spec.tries == 2
    assert judge.critics.step == model_of(config, "judge")
    assert judge.critics.multimodal == (model_of(config, "judge"), model_of(config, "other"))
    assert judge.critics.describer is None
    assert str(own_judge(Config()).rule) == "consensus(text,multimodal)"
    assert own_judge(Config()).spec.ask is Ask.CHANNELS


def test_names_of_endpoints_and_prompt_files_make_no_other_judge(tmp_path: Path) -> None:
    [packaged] = (ROOT / "trajmill/stages/critics/model/prompts").glob("critic_text-*.md")

    def identity(prompt: str, *changes: tuple[str, str]) -> object:
        (tmp_path / prompt).write_text(packaged.read_text())
        text = f'{THREE_SERVERS}[prompts]\ncritic_text = "{prompt}"\n'
        for before, after in changes:
            text = text.replace(before, after)
        return own_judge(load_config(written(tmp_path, text))).identity

    renamed = (("endpoints.other", "endpoints.second"), ('"judge", "other"', '"judge", "second"'))
    assert identity("one.md") == identity("two.md", *renamed) != identity("one.md", ("judge-72b", "judge-7b"))
    assert Config(judge=JudgeSection(concurrency=512)).run_id == Config().run_id, "it decides no row"
    assert Config(judge=JudgeSection(votes=2)).run_id != Config().run_id


BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]
GROUPS = {
    group
    for file in (ROOT / "trajmill").rglob("*.py")
    for group in re.findall(r'"(trajmill\.[a-z_]+)"', file.read_text(encoding="utf-8"))
}
"""The entry point groups of other packages' parts, and what else looks like one."""


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_loads(block: str, tmp_path: Path) -> None:
    tables = tomllib.loads(block)
    if "project" in tables:
        assert set(tables["project"]["entry-points"]) <= GROUPS
        return
    for name in re.findall(r'"([\w./-]+\.(?:yaml|jsonl|md|txt|apk))"', block):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
    for name in re.findall(r'^(?:knowledge|tasks) = "(\w+)"', block, re.MULTILINE):
        (tmp_path / name).mkdir()
    mistake = runner_mistake(tables.get("beam", {}).get("runner", BeamSettings().runner))
    # An engine that the tests do not install is told by this line alone.
    line = rf"\A\S+ beam\.runner: {re.escape(mistake or '')}\Z"
    with nullcontext() if mistake is None else pytest.raises(BadInputError, match=line):
        load_config(written(tmp_path, block))
