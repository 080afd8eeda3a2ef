import pickle
from pathlib import Path

import pytest

from tests.stages.models.fault_server import running_server
from tests.stages.models.scripted import request
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.spec import Spec
from trajmill.stages.models.openai_api.spec import ModelServerSpec, OpenAiSpec
from trajmill.stages.models.spec import MODELS, Endpoint, ModelSpec

SERVED = OpenAiSpec(model="m", urls=("http://one/v1",))


@pytest.mark.parametrize("kind", MODELS.kinds())
def test_each_kind_is_sent_to_workers(kind: str) -> None:
    spec: Spec = MODELS.spec_class(kind).model_validate({"kind": kind, "model": "m"})
    assert isinstance(spec, ModelSpec)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_how_a_model_is_reached_is_no_part_of_its_identity() -> None:
    serve = ModelServerSpec(python=Path("python"), port=8001)
    other = OpenAiSpec(model="m", urls=("http://two/v1",), api_key_variable="KEY", attempts=1, cache=False, serve=serve)
    assert other.addresses == ("http://two/v1", "http://127.0.0.1:8001/v1")
    assert other.identity() == SERVED.identity()
    assert SERVED.model_copy(update={"family": "gui-owl"}).identity() != SERVED.identity()


def test_a_key_that_is_not_set_and_a_missing_address_give_one_error_line() -> None:
    with pytest.raises(BadInputError, match=r"^KEY is not set: export the API key of http://one/v1 in it$"):
        SERVED.model_copy(update={"api_key_variable": "KEY"}).connect({})
    with pytest.raises(BadInputError, match=r"^no address of a server with model 'm': name one in urls$"):
        OpenAiSpec(model="m").connect({})


@pytest.mark.parametrize(("cache", "calls"), [(True, 1), (False, 2)])
async def test_answers_are_kept_unless_the_spec_says_no(tmp_path: Path, cache: bool, calls: int) -> None:
    with running_server() as server:
        model = Endpoint(OpenAiSpec(model="tiny", urls=(server.url,), cache=cache), tmp_path / "cache").open()
        for _ in range(2):
            await model.complete(request())
        await model.close()
        assert len(server.received) == calls
