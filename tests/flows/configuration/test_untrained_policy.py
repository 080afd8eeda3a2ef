"""The command that makes the policy of a run that begins with nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import ModelsSection
from trajmill.flows.policies.addition import make_untrained_policy
from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.models.local.folder import TransformersSpec

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "pixels.toml"


def test_it_is_made_once_where_the_endpoint_says(tmp_path: Path) -> None:
    spec = TransformersSpec(model=tmp_path / "policy", family="read-aloud")
    environment = SimulatedSpec(builtin_apps=("bites",))
    config = Config(environment=environment, models=ModelsSection(policy="tiny"), endpoints={"tiny": spec})
    made = make_untrained_policy(config)
    assert made.is_new and made.folder == tmp_path / "policy" and made.version == spec.version
    assert AutoTokenizer.from_pretrained(made.folder)("Margherita Cheeseburger")["input_ids"][0] > 100
    assert make_untrained_policy(config, blind=True) == made._replace(is_new=False)


def test_a_policy_that_is_no_such_model_gives_one_error_line() -> None:
    with pytest.raises(BadInputError, match=r"^models.policy is embedded; name an endpoint [^\n]*$"):
        make_untrained_policy(Config())
