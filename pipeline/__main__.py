"""Run a recipe or a stage: `python -m pipeline [STAGE] --config RECIPE [key=value ...]`."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder, as in `clozeline/__main__.py`

from clozeline.pipeline.execution.recipe_command import main

if __name__ == "__main__":
    raise SystemExit(main())
