#!/bin/bash
# sbatch configs/launch/array.sh --config FILE [key=value ...]
#
# One job per seed, each on one node and in its own folder. A stopped job requeues itself and resumes.
# `clozeline` must be on PATH: activate its environment before `sbatch`.
#SBATCH --job-name=clozeline-seeds
#SBATCH --array=1-3
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append

srun --kill-on-bad-exit=1 clozeline train "$@" \
  "seed=$SLURM_ARRAY_TASK_ID" "output=runs/seed-$SLURM_ARRAY_TASK_ID"
code=$?
if [ "$code" -eq 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
