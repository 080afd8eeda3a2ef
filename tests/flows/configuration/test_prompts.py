from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from tests.stages.agents.test_end_to_end import CLICK
from tests.stages.models.scripted import replies
from tests.stages.rollout.toy import toy_query
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.sections import PromptsSection
from trajmill.flows.serving.models_ready import models_ready
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.errors import BadInputError
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.knowledge import Retrieval
from trajmill.stages.agents.roles import Role
from trajmill.stages.models.prompts import Prompt

STAGES = Path(__file__).parents[3] / "trajmill/stages"
OF_AGENTS = {path.stem: path for path in (STAGES / "agents").glob("*/prompts/*.md")}
OF_ROWS = {"prm-1"}
"""A trained process reward model must be asked as in its training rows."""
PACKAGED = {path.stem: path for path in STAGES.rglob("prompts/*.md") if path.stem not in {*OF_AGENTS, *OF_ROWS}}
LISTS = {"writer_refine": "writer_short", "writer_refine_heldout": "writer_ask"}
"""Keys that take several files, and a packaged prompt of that kind."""
KEYS = list(PromptsSection.model_fields)
OF_GRAPHS = ("describer_page", "writer_slots")
"""Keys for the annotation of graphs, which is no part of a run."""


def packaged_name(key: str) -> str:
    [name] = [name for name in PACKAGED if name.rpartition("-")[0] == LISTS.get(key, key)]
    return name


def packaged(key: str) -> str:
    return PACKAGED[packaged_name(key)].read_text()


def configured(folder: Path, key: str, prompt: str) -> Config:
    (folder / "my words.md").write_text(prompt)
    files = '["my words.md"]' if key in LISTS else '"my words.md"'
    (folder / "trajmill.toml").write_text(f"[prompts]\n{key} = {files}\n")
    return load_config(folder / "trajmill.toml")


def every(prompts: object) -> Iterator[Prompt]:
    if isinstance(prompts, Prompt):
        yield prompts
    elif isinstance(prompts, tuple | dict):
        for each in prompts.values() if isinstance(prompts, dict) else prompts:
            yield from every(each)


@pytest.mark.parametrize("key", KEYS)
def test_a_prompt_of_the_user_replaces_the_packaged_one(tmp_path: Path, key: str) -> None:
    config = configured(tmp_path, key, packaged(key).replace("# user", "Mine.\n\n# user"))
    usual, used = set(every(prompts_of(Config()))), set(every(prompts_of(config)))
    [mine] = used - usual
    assert mine.system.endswith("Mine.") and mine.version.startswith("my-words-")
    assert packaged_name(key) in {prompt.version for prompt in usual - used}
    assert (config.run_id == Config().run_id) == (key in OF_GRAPHS)


def test_every_packaged_prompt_can_be_replaced() -> None:
    assert {prompt.version for prompt in every(prompts_of(Config()))} == set(PACKAGED)


@pytest.mark.parametrize("name", OF_AGENTS)
def test_a_prompt_of_an_agent_is_replaced_and_checked_before_anything_is_asked(tmp_path: Path, name: str) -> None:
    path = OF_AGENTS[name]
    agent, (key, _, _), mine = path.parents[1].name, name.rpartition("-"), tmp_path / "mine.md"
    mine.write_text(path.read_text().replace("# user", "Mine.\n\n# user"))
    (tmp_path / "known.md").write_text("Codes are redeemed in the wallet.")
    roles = 'researcher = "policy"\nknowledge = "."\n' if key.startswith("researcher") else ""
    (tmp_path / "trajmill.toml").write_text(f'[agent]\nkind = "{agent}"\n{roles}prompts.{key} = "mine.md"\n')
    config = load_config(tmp_path / "trajmill.toml")
    assert sum("Mine." in f"{prompt}" for prompt in _opened(config)) == 1
    assert config.run_id != Config.model_validate({"agent": {"kind": agent}}).run_id
    mine.write_text(path.read_text().replace("$instruction", ""))
    expected = r"^[^\n]*mine\.md[^\n]*instruction is missing[^\n]*$"
    with pytest.raises(BadInputError, match=expected), models_ready(config, tmp_path):
        raise AssertionError("the run began")


def _opened(config: Config) -> Iterator[Prompt]:
    """The prompts of the agent of a configuration."""
    agent = config.agent.open(AgentModel(replies(CLICK), ANY, 0.0))(toy_query())
    roles = [getattr(agent, field.name) for field in fields(agent)]  # type: ignore[arg-type]
    for role in roles:
        role = role.researcher if isinstance(role, Retrieval) else role
        # The Manager and the researcher are two roles, one for each of their prompts.
        yield from (each.prompt for each in (role if isinstance(role, tuple) else (role,)) if isinstance(each, Role))


MISTAKES = [
    ("# user", "# someone", "no section '# user'"),
    ("# user", "# user\n$nonsense", "unknown field $nonsense"),
    ("$", "", "is missing"),
]


@pytest.mark.parametrize("key", KEYS)
def test_a_prompt_that_misses_something_gives_one_error_line_before_anything_is_asked(tmp_path: Path, key: str) -> None:
    for old, new, reason in MISTAKES:
        if old in packaged(key):
            config = configured(tmp_path, key, packaged(key).replace(old, new))
            with pytest.raises(BadInputError) as caught, models_ready(config, tmp_path):
                raise AssertionError("the run began")
            message = str(caught.value)
            assert "my words.md" in message and reason in message and "\n" not in message
