"""Run a recipe, or its stages up to one.

Examples: `clozeline pipeline --config RECIPE`, `clozeline clean --config RECIPE`.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

from clozeline.command import (
    DetailOptions,
    keys_of,
    program_name,
    run_command,
    wrap_log,
)
from clozeline.command_line import (
    Dashed,
    OtherKeys,
    asks_for_help,
    key_lines,
    print_help,
    read_words,
    wants_all_keys,
)
from clozeline.configuration.config import config_class, config_file
from clozeline.configuration.described_keys import DescribedKey, describe
from clozeline.errors import ConfigurationError
from clozeline.pipeline import all_stages
from clozeline.pipeline.recipe import Recipe, load_default_recipe, load_recipe
from clozeline.pipeline.registries import (
    EXECUTORS,
    EXTRACTORS,
    FILTERS,
    GROUPINGS,
    LANGUAGES,
    OBJECTIVES,
    READERS,
)

# Algorithms whose options stand next to other keys of a recipe.
_ALGORITHMS: Final = (
    ("input", "reader", READERS),
    ("executor.options", "executor.name", EXECUTORS),
    ("clean.extractor", "name", EXTRACTORS),
    ("clean.language", "name", LANGUAGES),
    ("clean.filters", "name", FILTERS),
    ("group", "name", GROUPINGS),
    ("corrupt", "name", OBJECTIVES),
)


@config_class
class PipelineOptions(DetailOptions):
    """A recipe, and options that say how to run it."""

    config: Annotated[str | None, Dashed("FILE")] = None
    """the recipe: a YAML file, or recipe:NAME for one that comes with Clozeline"""
    verify: bool = False
    """hash inputs and finished files before units are skipped"""
    plan: bool = False
    """show which units are kept, which would run and why, and do nothing"""
    force: Annotated[str | None, Dashed("STAGE")] = None
    """make all units of a stage again"""
    words: Annotated[tuple[str, ...], OtherKeys("for example input=FILES output=DIR")] = ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a recipe, up to the stage that the first argument names; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    stage = words.pop(0) if words and words[0] in all_stages() else None
    return run_stage(stage, words)


def run_stage(stage: str | None, arguments: Sequence[str]) -> int:
    """Run a recipe, up to one stage if it is given; return the exit code."""
    return run_command(lambda: _parse_and_run(stage, arguments))


def _parse_and_run(stage: str | None, arguments: Sequence[str]) -> int:
    if asks_for_help(arguments):
        program = "python -m pipeline" if stage is None else f"python -m pipeline {stage}"
        what = "every stage" if stage is None else f"the stage '{stage}'"
        description = f"Run {what} of a recipe."
        print_help(PipelineOptions, arguments, description, program_name(program))
        _print_keys(stage, wants_all_keys(arguments))
        return 0

    options = read_words(PipelineOptions, arguments)
    note = ""
    if options.config is not None:
        recipe = load_recipe(
            config_file(options.config, "pipeline.yaml"), options.words, is_users=True
        )
    elif stage is not None:
        recipe, note = load_default_recipe(stage, options.words)
    else:
        raise ConfigurationError(
            "--config FILE is missing, as in: clozeline pipeline --config mine/pipeline.yaml; "
            "`clozeline new mine input=FILES` writes it; see --help"
        )

    from clozeline.pipeline.execution import recipe_actions

    if note and options.detail != "quiet":
        recipe_actions.show_line(wrap_log(note))
    if options.plan:
        return recipe_actions.show_plan(recipe, stage, verify=options.verify, force=options.force)
    return recipe_actions.run_stages(
        recipe, stage, options.detail, verify=options.verify, force=options.force
    )


def _print_keys(stage: str | None, all_keys: bool) -> None:
    """Print the keys of a stage, or the common keys without one; `all_keys` prints every key."""
    keys: Iterable[DescribedKey]

    if all_keys:
        order = {name: index for index, name in enumerate(all_stages())}
        keys = sorted(
            keys_of(Recipe, _ALGORITHMS),
            key=lambda key: order.get(key.key.partition(".")[0], -1),
        )
        title = "keys of the configuration"
    elif stage is not None:
        keys = keys_of(Recipe, _ALGORITHMS, only=stage)
        title = f"keys of the stage {stage}"
    else:
        keys = describe(Recipe, common=True)
        title = "keys that are set most often"

    lines = "\n".join(key_lines(keys, title))
    more = "" if all_keys else "\n`--help all` shows all keys.\n"
    sys.stdout.write(f"\n{lines}\n{more}")
