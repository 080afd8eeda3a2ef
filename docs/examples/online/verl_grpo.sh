#!/usr/bin/env bash
# Online GRPO with verl 0.9.1 on one machine with eight GPUs: FSDP trains, vLLM samples on the same GPUs, and verl sends
# it the new weights after each update. docs/online.md says what of this was run.
#
#     trajmill env serve --slots 128 --family qwen3-vl
#     python verl_rows.py http://127.0.0.1:8000 train rows.parquet
#     bash verl_grpo.sh rows.parquet Qwen/Qwen3-VL-8B-Instruct
#     trajmill policy add --model checkpoints/trajmill/grpo/global_step_200/actor/huggingface
#
# An update is made of 16 queries with 8 attempts each: 128 sessions at once. Further arguments replace settings.
set -euo pipefail
rows=$1 model=$2
folder=$(cd "$(dirname "$0")" && pwd)
settings=(
    data.train_files="$(realpath "$rows")"
    data.val_files="$(realpath "$rows")"
    data.train_batch_size=16
    data.max_prompt_length=8192              # one prompt with its screens
    data.max_response_length=512             # one reply
    # Bounds of a screen, both needed. For a family with positions in pixels (qwen2.5-vl, gui-owl, ui-tars), the endpoint
    # of `env serve` has the same max_pixels.
    +data.mm_processor_kwargs.min_pixels=65536
    +data.mm_processor_kwargs.max_pixels=602112
    algorithm.adv_estimator=grpo
    actor_rollout_ref.model.path="$model"
    actor_rollout_ref.actor.optim.lr=1e-6
    actor_rollout_ref.actor.ppo_mini_batch_size=16
    actor_rollout_ref.actor.use_dynamic_bsz=true
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=17408
    actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.n=8            # attempts at a query
    actor_rollout_ref.rollout.tensor_model_parallel_size=1
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5
    actor_rollout_ref.rollout.max_model_len=8704
    actor_rollout_ref.rollout.agent.default_agent_loop=trajmill_gui
    actor_rollout_ref.rollout.agent.agent_loop_config_path="$folder/verl_loop.yaml"
    trainer.n_gpus_per_node=8
    trainer.total_training_steps=200
    trainer.save_freq=50
    trainer.val_before_train=false           # trajmill evaluates: `trajmill policy add`
    trainer.logger=console
    trainer.project_name=trajmill
    trainer.experiment_name=grpo
)
exec "${PYTHON:-python}" -m verl.trainer.main_ppo "${settings[@]}" "${@:3}"
