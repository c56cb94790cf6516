#!/bin/bash
# sbatch configs/launch/slurm.sh --config FILE [key=value ...]
#
# One task per GPU. Five minutes before the time limit, every task gets a signal: the ranks save after the step and end
# with exit code 75. The job then requeues itself and resumes.
# `clozeline` must be on PATH: activate its environment before `sbatch`.
#SBATCH --job-name=clozeline
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append

srun --kill-on-bad-exit=1 clozeline train "$@"
code=$?
if [ "$code" -eq 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
