"""Write a pipeline recipe and a training configuration for your texts.

    clozeline new DIR [input=FILES kind=NAME language=CODE model=NAME size=NAME]

Writes DIR/pipeline.yaml and DIR/train.yaml, with comments, for a small model. On a terminal, it
asks for the settings that the command line does not give. Both files run as they are: first
`clozeline pipeline --config DIR/pipeline.yaml`, then `clozeline train --config DIR/train.yaml`.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class, load_config, validate
from clozeline.configuration.overrides import parse_yaml
from clozeline.configuration.redaction import redact
from clozeline.errors import ConfigurationError
from clozeline.files import publish_text
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.execution.stages import check_recipe, tokenizer_stage
from clozeline.pipeline.recipe import Recipe
from clozeline.tools.command import OutputPath, run_as_script, run_tool
from clozeline.tools.start.project.kinds import ANY, KINDS, check_kind, choose_kind
from clozeline.tools.start.project.sample import read_unknown_files_as_text, sample_texts
from clozeline.tools.start.project.templates import (
    MODELS,
    absolute_input,
    check_language,
    check_model,
    check_size,
    pipeline_yaml,
    text_bytes,
    train_yaml,
)
from clozeline.train.configuration.config import TrainConfig

_MODEL_LINES: Final = "\n".join(f"  {name}: {family.use}" for name, family in MODELS.items())

_MARKUP_SHARE: Final = 0.1
"""Share of texts with HTML tags from which on it is told."""


@config_class
class ProjectSettings:
    """Settings of `clozeline new`; null: asked for on a terminal."""

    folder: Annotated[OutputPath, Positional(0, "DIR")]
    """folder to write, not the folder of the texts"""
    input: str | list[Any] | dict[str, Any] | None = None
    """Texts: a file, a folder, a glob, a URL, or `{path: posts.jsonl, text_key: body}`."""
    kind: str | None = None
    """Kind of the texts: pages, texts (short texts: sentences, chat, captions, titles), code, or
    sequences (DNA, proteins). Default: sequences for FASTA files, else pages or texts, by the
    median length of a sample."""
    language: str | None = None
    """Language code of the documents to keep, such as en; `any` keeps all, the default without a
    terminal."""
    model: str | None = None
    """A family of models, such as bert, gpt, llama, t5 or bart; default without a terminal:
    bert."""
    size: str | None = None
    """One of the family's sizes in configs/models, such as bert_base; default: a small variant that
    trains on a CPU."""


def _ask(question: str, check: Callable[[str], Any], default: str = "") -> Any:
    """Ask on the terminal until an answer passes `check`; an empty answer means the default."""
    while True:
        print(f"{question}{f' [{default}]' if default else ''}: ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise ConfigurationError(
                "no answer; give input=FILES language=CODE model=NAME on the command line"
            )
        try:
            return check(line.strip() or default)
        except ConfigurationError as error:
            print(error)


class Project(NamedTuple):
    """The settings from which the two files of a project are written."""

    source: Any
    """value of `input`"""
    kind: str
    language: str
    model: str
    size: str | None
    """None: a small variant of the model"""


def _choose_project(settings: ProjectSettings, ask: bool) -> Project:
    """Return the project to write.

    A setting that the command line does not give is asked for on a terminal, or has its default;
    the kind of the texts is measured on a sample.
    """
    if settings.input is not None:
        source = absolute_input(json.dumps(settings.input, ensure_ascii=False))
    elif ask:
        source = _ask("Your texts: a file, a folder or a glob", absolute_input)
    else:
        raise ConfigurationError(
            "input is missing: give the folder of your texts, such as input=texts"
        )

    kind = check_kind(settings.kind) if settings.kind is not None else _measure_kind(source)
    if KINDS[kind].is_file_of_any_name:
        source = read_unknown_files_as_text(source)
    if KINDS[kind].language is None:
        if settings.language not in {None, ANY}:
            raise ConfigurationError(
                f"language={settings.language}: kind={kind} has no language; leave it out"
            )
        language = ANY
    elif settings.language is not None:
        language = check_language(settings.language)
    else:
        question = f"Their language: a code such as en or de, or {ANY}"
        language = _ask(question, check_language, ANY) if ask else ANY

    if settings.model is not None:
        model = check_model(settings.model)
    else:
        model = (
            _ask(f"A small model:\n{_MODEL_LINES}\nName", check_model, "bert") if ask else "bert"
        )

    return Project(source, kind, language, model, check_size(settings.size, model))


def _measure_kind(source: object) -> str:
    """Return the kind of texts that a sample of the input shows, and print the reason."""
    sample = sample_texts(source)
    kind, why = choose_kind(sample)
    print(f"kind={kind} ({KINDS[kind].use}): {why}")
    if sample.markup_share >= _MARKUP_SHARE:
        print(
            f"{100 * sample.markup_share:.0f} % of the sampled texts hold HTML tags: to extract "
            "them, set `html: true` next to the path of rows, or `reader: html` for text files"
        )
    return kind


def write_project(folder: Path, project: Project) -> None:
    """Write the two files of a project.

    Raises:
        ConfigurationError: the folder has one of the two files already, or the recipe is wrong.
    """
    folder = folder.absolute()

    for name in ("pipeline.yaml", "train.yaml"):
        if (folder / name).exists():
            raise ConfigurationError(
                f"{folder / name} exists: name another folder, or remove the file"
            )

    source, kind, language, model, size = project
    text = pipeline_yaml(folder, source, language, model, kind)
    recipe = validate(Recipe, parse_yaml(text), str(folder / "pipeline.yaml"))
    check_recipe(recipe)
    if text_bytes(source):
        load_plan(recipe)  # refuses what `clozeline pipeline` refuses
    is_private = redact(source) != source
    publish_text(folder / "pipeline.yaml", text, is_private=is_private)
    if is_private:
        print(
            f"{folder / 'pipeline.yaml'} holds secrets of the input, which the run needs: only you "
            "may read it (mode 600)"
        )
    publish_text(
        folder / "train.yaml",
        train_yaml(folder, source, language, model, grouping_of(recipe), size),
    )
    load_config(TrainConfig, folder / "train.yaml")  # refuses what `clozeline train` refuses


def grouping_of(recipe: Recipe) -> str:
    """Return the label of the sample set that the recipe's first objective reads."""
    vocabulary = tokenizer_stage(recipe).expected_tokenizer().vocabulary
    label: str = recipe.config_of("corrupt")[0].build(vocabulary).grouping.label
    return label


def _write(settings: ProjectSettings) -> None:
    write_project(settings.folder, _choose_project(settings, ask=sys.stdin.isatty()))
    print("Read and change both files, then:")
    print(f"  clozeline pipeline --config {settings.folder}/pipeline.yaml")
    print(f"  clozeline train --config {settings.folder}/train.yaml")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ProjectSettings, _write)


if __name__ == "__main__":
    run_as_script(main)
