import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from tests.flows.serving.process_groups import is_gone, living
from tests.flows.serving.stand_in_vllm import stand_in
from tests.http_server import saying
from tests.stages.environments.processes import eventually
from trajmill.flows.serving.kept_server import KeptServer, is_free
from trajmill.flows.serving.model_server import (
    ModelServer,
    ServerAnswer,
    ask_server,
    error_in_log,
    load_adapter,
    served,
    served_models,
    unload_adapter,
)
from trajmill.flows.serving.models_ready import RefusedPolicyError, policy_server, serve_policy
from trajmill.flows.stage import AwaitedError
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.stages.models.openai_api.spec import OpenAiSpec

pytestmark = pytest.mark.slow


_PORTS = count(10_000 + os.getpid() % 1_000 * 20)
"""Below the ports that systems give out, and others in each process of tests that runs beside this one."""


def free_port() -> int:
    return next(filter(is_free, _PORTS))


def refused(message: str, folder: Path, *servers: ModelServer) -> None:
    with pytest.raises(BadInputError, match=message), served(servers, folder):
        pass


def test_servers_answer_inside_and_are_gone_outside_even_after_an_error(tmp_path: Path) -> None:
    servers = [ModelServer(name, name, stand_in(tmp_path, free_port())) for name in "ab"]
    groups: list[int] = []
    with pytest.raises(KeyboardInterrupt), served(servers, tmp_path / "logs") as started:
        groups += started.values()
        assert [served_models(each.address) for each in servers] == [frozenset({"a"}), frozenset({"b"})]
        assert [len(living(group)) for group in groups] == [2, 2], "itself, and what it has started"
        raise KeyboardInterrupt
    assert not any(map(living, groups)) and is_free(servers[0].section.port)
    assert f"a stand-in for {tmp_path}" in (tmp_path / "logs" / "a.log").read_text()


def test_a_server_that_is_there_is_used_if_it_has_the_model_and_takes_the_key_and_stays(tmp_path: Path) -> None:
    section = stand_in(tmp_path, free_port())
    critic = ModelServer("critic", "judge-7b", section, "s3cret")
    with served([critic], tmp_path) as own:
        with served([critic], tmp_path) as started:
            assert started == {}
        assert served_models(critic.address, "s3cret") == frozenset({"judge-7b"})
        assert isinstance(served_models(critic.address), ServerAnswer)
        for process in living(own["critic"]):
            assert b"s3cret" not in Path(f"/proc/{process}/cmdline").read_bytes()
        message = f"^endpoints.writer.serve.port {section.port} has a server of judge-7b, not of writer-7b; .*$"
        refused(message, tmp_path, ModelServer("writer", "writer-7b", section, "s3cret"))
        message = "has a server that does not tell its models .status 401."
        refused(message, tmp_path, ModelServer("critic", "judge-7b", section, "guessed"))


def test_what_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    with saying(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n") as other:
        taken = r"is taken by something that is not a healthy model server \(status 404\)"
        refused(taken, tmp_path, ModelServer("critic", "m", stand_in(tmp_path, int(other.rpartition(":")[2]))))
    port = free_port()
    section = stand_in(tmp_path, port)
    critic = ModelServer("critic", "m", section)
    twice = f"endpoints.writer.serve.port is {port}, which endpoints.critic has already"
    refused(twice, tmp_path, critic, ModelServer("writer", "m", section))
    python = section.model_copy(update={"python": tmp_path / "bin" / "python"})
    missing = r"^endpoints.critic.serve.python: there is no program .*/bin/python; .*$"
    refused(missing, tmp_path, critic._replace(section=python))
    renamed = stand_in(tmp_path, port, "--served-model-name", "other")
    other = "serves other, not m; leave --served-model-name out"
    refused(other, tmp_path, critic._replace(section=renamed))
    assert is_free(port)


def test_a_server_that_dies_while_starting_gives_one_error_line_and_the_others_leave(tmp_path: Path) -> None:
    (tmp_path / "critic.log").write_text("OldError: of an earlier start\n")
    fine = ModelServer("writer", "writer-7b", stand_in(tmp_path, free_port()))
    dying = ModelServer("critic", "judge-7b", stand_in(tmp_path, free_port(), "--die"))
    with pytest.raises(TrajmillError) as raised, served([fine, dying], tmp_path):
        pass
    assert str(raised.value) == (
        "the model server of endpoints.critic ended with code 3 while starting: ValueError: no weights[0m here"
        f"; all of it is in {tmp_path / 'critic.log'}"
    )
    assert is_free(fine.section.port)


def test_a_server_that_falls_silent_before_it_is_ready(tmp_path: Path) -> None:
    critic = ModelServer("critic", "judge-7b", stand_in(tmp_path, free_port(), "--never-ready", ready_seconds=3.0))
    message = r"hung while starting: silent for 3 s \(serve.ready_seconds\): .*; all of it is in .*critic.log$"
    with pytest.raises(TrajmillError, match=message), served([critic], tmp_path):
        pass


_OWNER = """
import sys, time
from pathlib import Path
from trajmill.stages.models.openai_api.spec import ModelServerSpec
from trajmill.flows.serving.model_server import ModelServer, served

section = ModelServerSpec.model_validate_json(sys.argv[1])
with served([ModelServer("critic", "judge-7b", section)], Path(sys.argv[2])) as started:
    print(started["critic"], flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("dies_first", [False, True])
def test_nothing_is_left_of_it_when_its_owner_is_killed(tmp_path: Path, dies_first: bool) -> None:
    section = stand_in(tmp_path, free_port())
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, section.model_dump_json(), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    group = int(owner.stdout.readline())
    assert len(living(group)) == 2
    if dies_first:  # vLLM's engine is a process that goes on without its server.
        os.kill(group, signal.SIGKILL)
    owner.kill()
    owner.communicate()
    assert is_gone(group)
    assert is_free(section.port)


def test_a_server_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)"
    deaf = KeptServer([sys.executable, "-c", f"{ignoring}; time.sleep(600)"], tmp_path / "log", 0.2, {})
    eventually(lambda: deaf.log.read_text() == "up\n")
    deaf.end()
    assert not living(deaf.process.pid)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n  \n", "it wrote nothing"),
        ("loading\nloading weights\n\n", "loading weights"),
        (
            "(APIServer pid=7) WARNING 11-20 22:25:20 [a.py:2] limits can cause OSError: 24\n"
            "(Worker pid=8) ERROR 11-20 22:25:21 [b.py:10]     raise torch.OutOfMemoryError(\n"
            "(Worker pid=8) ERROR 11-20 22:25:21 [b.py:10] torch.OutOfMemoryError: 3 GiB are missing\n"
            "(Worker pid=8) ERROR 11-20 22:25:21 [b.py:10] Traceback (most recent call last):\n"
            "(APIServer pid=7) RuntimeError: see root cause above\n"
            "  warnings.warn('1 leaked semaphore')\n",
            "torch.OutOfMemoryError: 3 GiB are missing",
        ),
        (
            "pydantic.ValidationError: 1 validation error for ModelConfig\n"
            "  Value error, no such folder\n"
            "    For further information visit the page\n",
            "pydantic.ValidationError: 1 validation error for ModelConfig  Value error, no such folder",
        ),
        ("ValueError: \x1b[31mred\x07\n", "ValueError: [31mred"),
        ("\xff\xfe" * 400 + "end\n", "\xff\xfe" * 200),
    ],
)
def test_the_last_lines_of_a_log_are_kept(tmp_path: Path, text: str, words: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(text)
    assert error_in_log(log) == words


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


def test_what_runs_here_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with saying(OK + b"fine") as address:
        assert ask_server(f"{address}/v1") == ServerAnswer(200, "fine")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"data": [{}]}'])
def test_a_malformed_list_of_models_is_refused(body: bytes) -> None:
    with saying(OK + body) as address:
        assert served_models(f"{address}/v1") == ServerAnswer(0, "its list of models cannot be read")
    with saying(b"SSH-2.0-OpenSSH_9.2\r\n") as address:
        assert ask_server(address).status == 0


def adapter(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    (path / "adapter_config.json").write_text("{}")
    return path


def test_a_new_version_takes_the_place_of_the_old_one_or_is_waited_for_on_somebody_elses_server(tmp_path: Path) -> None:
    spec = OpenAiSpec(model="policy-7b", serve=stand_in(tmp_path, free_port(), "--enable-lora"))
    (address,) = spec.addresses
    with policy_server("policy", tmp_path):
        serve_policy(spec, "policy-7b", None, None)
        assert served_models(address) == frozenset({"policy-7b"})
        new = adapter(tmp_path, "v1")
        for _ in range(2):
            serve_policy(spec, "v1", None, new)
            assert served_models(address) == frozenset({"policy-7b", "v1"})
        for _ in range(2):
            unload_adapter(address, "v1")
        assert served_models(address) == frozenset({"policy-7b"})
        with pytest.raises(RefusedPolicyError, match=r"\A[^\n]*the rank 64 is greater than max_lora_rank 8\Z"):
            serve_policy(spec, "broken", None, adapter(tmp_path, "broken"))

        weights = tmp_path / "weights"
        weights.mkdir()
        serve_policy(spec, "v2", weights, None)
        assert served_models(address) == frozenset({"v2"}), "whole weights need a server of their own"
        serve_policy(spec, "policy-7b", None, None)
        assert served_models(address) == frozenset({"policy-7b"})

        elsewhere = spec.model_copy(update={"serve": None, "urls": spec.addresses})
        what = r"awaiting a policy: .* does not serve v2, but policy-7b; load (\S+) into it .* --served-model-name v2`"
        with pytest.raises(AwaitedError, match=rf"\A{what}[^\n]*run the same command again\Z"):
            serve_policy(elsewhere, "v2", tmp_path, None)
        with pytest.raises(RefusedPolicyError, match=r"does not serve v2, but policy-7b\Z"):
            serve_policy(elsewhere, "v2", None, None)
    with pytest.raises(TrajmillError, match="does not answer"):
        serve_policy(spec, "policy-7b", None, None)


def test_a_server_that_takes_no_adapter_and_what_is_none(tmp_path: Path) -> None:
    policy, v1 = ModelServer("policy", "policy-7b", stand_in(tmp_path, free_port())), adapter(tmp_path, "v1")
    message = "cannot load the LoRA adapter v1: start it with --enable-lora"
    with served([policy], tmp_path), pytest.raises(BadInputError, match=message):
        load_adapter(policy.address, "v1", v1)
    with pytest.raises(TrajmillError, match="does not answer"):
        load_adapter(policy.address, "v1", v1)
    with pytest.raises(BadInputError, match=r"is no LoRA adapter: it has no adapter_config.json"):
        load_adapter(policy.address, "none", tmp_path)
