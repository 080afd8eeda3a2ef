#!/bin/bash
# A run on Slurm: sbatch deploy/slurm.sh trajmill.toml
# The scheduler and `trajmill evolve` run in this job, and each task of the array job below is a worker. The configuration has
# root = "s3://..." or a folder that all nodes mount, and [beam] runner = "dask", cluster = "" (its line is replaced here).
#SBATCH --job-name=trajmill
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --time=24:00:00
set -euo pipefail

configuration=${1:?"name the configuration: sbatch deploy/slurm.sh trajmill.toml"}
scheduler=tcp://$(hostname --fqdn):8786
dask scheduler --port 8786 --dashboard-address :8787 &
workers=$(sbatch --parsable --job-name=trajmill-worker --array=1-"${WORKERS:-8}" --cpus-per-task=1 --mem=8G --time=24:00:00 \
    --wrap "until trajmill worker --scheduler $scheduler --memory 7GiB; do sleep 10; done")
trap 'scancel "$workers"; kill %1' EXIT
sed "s|^cluster = .*|cluster = \"$scheduler\"|" "$configuration" > "trajmill-$SLURM_JOB_ID.toml"
trajmill evolve --config "trajmill-$SLURM_JOB_ID.toml"
