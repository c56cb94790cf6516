"""`python -m pipeline [STAGE] --config RECIPE [key=value ...]`: run a recipe, or one of its stages."""

from clozeline.pipeline.execution.recipe_command import main
from clozeline.without_pandas import skip_pandas

if __name__ == "__main__":
    skip_pandas()
    raise SystemExit(main())
