"""Train a model: `deepspeed train/main.py --config FILE [key=value ...]`.

`python train/main.py` trains on one rank.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the folder of this file: `train/evaluate.py` is no module `evaluate`

import os
from collections.abc import Sequence
from typing import NoReturn

from clozeline.train.distributed.stopping import leave_at_interrupt


def main(arguments: Sequence[str]) -> NoReturn:
    """Train, and exit the process."""
    leave_at_interrupt()
    from clozeline.train.command import main as train  # after the handlers: imports take time

    code = train(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a normal exit may abort while threads of torch's process groups still run


if __name__ == "__main__":
    main(sys.argv[1:])
