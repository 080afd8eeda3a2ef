#!/bin/bash
# A run on Slurm: sbatch deploy/slurm.sh trajmill.toml
# The scheduler and `trajmill evolve` run in this job, and each task of the array job below is a worker. The configuration has
# root = "s3://..." or a folder that all nodes mount, and [beam] with the lines runner = "dask" and cluster = "" (replaced here).
#SBATCH --job-name=trajmill
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --time=24:00:00
set -euo pipefail

configuration=${1:?"name the configuration: sbatch deploy/slurm.sh trajmill.toml"}
grep --quiet '^cluster *=' "$configuration" || { echo "$configuration: [beam] needs the line cluster = \"\"" >&2; exit 1; }
scheduler=tcp://$(hostname --fqdn):8786
dask scheduler --port 8786 --dashboard-address :8787 > "scheduler-$SLURM_JOB_ID.log" 2>&1 &
workers=$(sbatch --parsable --job-name=trajmill-worker --array=1-"${WORKERS:-8}" --cpus-per-task=1 --mem=8G --time=24:00:00 \
    --wrap "until trajmill worker --scheduler $scheduler --memory 7GiB; do sleep 10; done")
trap 'scancel "$workers"; kill %1' EXIT
own=${configuration%.toml}-$SLURM_JOB_ID.toml  # beside it: its paths are relative
sed "s|^cluster *=.*|cluster = \"$scheduler\"|" "$configuration" > "$own"
trajmill evolve --config "$own"
