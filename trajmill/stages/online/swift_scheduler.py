"""The multi-turn scheduler for ms-swift: its own for OpenEnv, with each screen as a picture in a growing conversation.

A file for `--external_plugins`: it registers itself. ms-swift's own scheduler would write the pictures into the text,
repeat a step after a lost connection, and read the missing reward of a void episode as 0.
"""

from __future__ import annotations

from typing import Any

from swift.rollout.multi_turn import OpenEnvScheduler, multi_turns

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.stages.environments.openenv.client import EnvironmentClient, EpisodeAnswer
from trajmill.stages.environments.openenv.wire import WireAction, WireScreen

_PICTURE = "<image>"


class SwiftSession:
    """An episode as ms-swift steps it; a row's `env_config` has `base_url`, and may have `token` and `reset_kwargs`."""

    def __init__(self, base_url: str, token: str = "", policy: str = "swift", **config: Any) -> None:
        self._client = EnvironmentClient(base_url, token, policy)
        self._order = {
            name: value for name, value in config.get("reset_kwargs", {}).items() if name in ("query_id", "seed")
        }
        self.screen: WireScreen | None = None

    def reset(self) -> tuple[WireScreen, None]:
        return self._seen(self._client.reset(**self._order)).screen, None

    def step(self, action: dict[str, Any]) -> tuple[WireScreen, float, bool, None]:
        """Do one step. Raises EnvironmentFailure if the episode is void; ms-swift knows no way to leave it out."""
        answer = self._seen(self._client.step(WireAction(**action)))
        return answer.screen, answer.reward or 0.0, answer.done, None

    def finish(self) -> float:
        """The reward of an episode that ends here, because ms-swift makes no further turn."""
        return self._seen(self._client.finish()).reward or 0.0

    def close(self) -> None:
        self._client.close()

    def _seen(self, answer: EpisodeAnswer) -> EpisodeAnswer:
        if answer.screen.void:
            raise EnvironmentFailure(f"the episode is void: {answer.screen.error}")
        self.screen = answer.screen
        return answer


class GuiScheduler(OpenEnvScheduler):  # type: ignore[misc]
    """Gives the model the prompt of its family at the first screen, and then one screen after another."""

    def _create_env(self, env_config: dict[str, Any]) -> SwiftSession:
        return SwiftSession(**env_config)

    async def on_trajectory_start(self, requests: list[Any]) -> None:
        await super().on_trajectory_start(requests)
        for request in requests:
            screen = self._envs[request.uuid].screen
            request.messages = [
                {"role": message.role, "content": message.text + (_PICTURE if message.screen_id else "")}
                for message in screen.messages
            ]
            request.images = [screen.screenshot]

    async def on_turn_end(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Do what the model wrote; the last turn ends the episode."""
        session = self._envs.get(infer_request.uuid)
        result: dict[str, Any] = await super().on_turn_end(infer_request, response_choice, current_turn)
        if session is None or result["done"]:
            return result
        if self.max_turns and current_turn >= self.max_turns:
            result["rollout_infos"]["total_reward"] += session.finish()
            await self._close_and_remove(infer_request.uuid)
            return result | {"done": True}
        infer_request.images.append(session.screen.screenshot)
        return result

    def parse_action(self, text: str) -> dict[str, Any]:
        return {"reply": text}

    def format_observation(self, observation: WireScreen) -> str:
        """The user's words after a step: why it was no action, and the screen."""
        return f"{observation.error}\n{_PICTURE}" if observation.error else _PICTURE


multi_turns["trajmill_gui"] = GuiScheduler
