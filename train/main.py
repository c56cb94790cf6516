"""Train a model: `deepspeed train/main.py --config FILE [key=value ...]`, or `python train/main.py` for one rank."""

import os
import sys
from pathlib import Path

# Replaced, not extended: files beside this one would hide modules of the same name.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from train.stopping import leave_at_interrupt  # noqa: E402 (the path must be right first)

if __name__ == "__main__":
    leave_at_interrupt()
    from train.command import main  # takes seconds

    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all is closed; the interpreter's own end may abort while threads of torch's groups still run
