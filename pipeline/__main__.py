"""`python -m pipeline [STAGE] --config RECIPE [key=value ...]`: run a recipe, or one of its stages."""

from clozeline.pipeline.execution.recipe_command import main

if __name__ == "__main__":
    raise SystemExit(main())
