"""A server in the place of vLLM: the same module name and arguments, a real process and socket, no model.

`stand_in` says how to start it with `ModelServerSpec`. It starts a process of its own, as vLLM does.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from tests.http_server import QuietHandler
from trajmill.stages.models.openai_api.spec import ModelServerSpec

_ROOT = Path(__file__).parents[3]


def stand_in(folder: Path, port: int, *arguments: str, ready_seconds: float = 60.0) -> ModelServerSpec:
    """How to start it; `folder` gets a package named vllm that leads here."""
    package = folder / "packages" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True, exist_ok=True)
    (package / "api_server.py").write_text("from tests.flows.serving.stand_in_vllm import main\n\nmain()\n")
    search_path = os.pathsep.join([str(folder / "packages"), str(_ROOT)])
    return ModelServerSpec(
        python=Path(sys.executable),
        model=str(folder),
        port=port,
        arguments=arguments,
        environment={"PYTHONPATH": search_path},
        ready_seconds=ready_seconds,
    )


class _Server(ThreadingHTTPServer):
    def __init__(self, port: int, names: list[str]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.models = set(names)
        self.key = os.environ.get("VLLM_API_KEY")
        self.takes_adapters = os.environ.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING") == "1"


class _Handler(QuietHandler):
    server: _Server

    def reply(self) -> None:
        kind, _, name = self.path.rpartition("/")[2].partition("_")
        asked = json.loads(self.body or "{}")
        if self.path == "/health":
            self._say(200, {})
        elif name == "lora_adapter" and self.server.takes_adapters:
            if "broken" in asked.get("lora_path", ""):
                self._say(400, {"error": {"message": "the rank 64 is\ngreater than max_lora_rank 8"}})
                return
            change = self.server.models.add if kind == "load" else self.server.models.discard
            change(asked["lora_name"])
            self._say(200, {})
        elif self.path != "/v1/models":
            self._say(404, {"detail": "Not Found"})
        elif self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            self._say(401, {"error": "Unauthorized"})
        else:
            self._say(200, {"data": [{"id": model} for model in sorted(self.server.models)]})

    def _say(self, status: int, body: object) -> None:
        self.answer(json.dumps(body).encode(), status)


def main() -> None:
    """Serve until the process is ended; or die, or never be ready."""
    parser = argparse.ArgumentParser()
    for name in ("--host", "--model"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", nargs="+", required=True)
    for name in ("--enable-lora", "--die", "--never-ready"):
        parser.add_argument(name, action="store_true")
    given = parser.parse_args()
    print("a stand-in for", given.model, flush=True)
    if given.die:
        print("(EngineCore pid=7) ValueError: no weights\x1b[0m here\nRuntimeError: see root cause above", flush=True)
        sys.exit(3)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if given.never_ready:
        print("loading weights", flush=True)
        threading.Event().wait()
    _Server(given.port, given.served_model_name).serve_forever()
