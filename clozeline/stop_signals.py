"""Signals that schedulers send before they end a job."""

import signal
from typing import Final

WARNINGS: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Warnings before a time limit: Slurm sends what `--signal` names, often SIGUSR1, and Grid Engine SIGUSR1, SIGUSR2 or
SIGXCPU. The default action of each ends the process at once."""
