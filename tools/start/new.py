"""Write a pipeline recipe and a training configuration for your texts.

    clozeline new mine [input=FILES kind=NAME language=CODE model=NAME size=NAME]

Writes DIR/pipeline.yaml and DIR/train.yaml, with comments, for a small model. On a terminal, it
asks for the settings that the command line does not give. Both files run as they are: first
`clozeline pipeline --config DIR/pipeline.yaml`, then `clozeline train --config DIR/train.yaml`.
"""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import xxhash

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class, validate
from clozeline.configuration.overrides import parse_word, parse_yaml
from clozeline.configuration.redaction import redact
from clozeline.errors import ConfigurationError
from clozeline.files import publish_text, read_text
from clozeline.model.checkpoints.published_forms import describe_export
from clozeline.model.checkpoints.sources import NewModel
from clozeline.pipeline.execution.plan import check_inputs
from clozeline.pipeline.execution.stages import check_recipe, tokenizer_stage
from clozeline.pipeline.recipe import InputEntry, Inputs, Recipe
from clozeline.tools.command import OutputPath, run_as_script, run_tool
from clozeline.tools.start.project.kinds import ANY, KINDS, choose_kind
from clozeline.tools.start.project.sample import read_unknown_files_as_text, sample_texts
from clozeline.tools.start.project.templates import (
    MODELS,
    check_language,
    check_name,
    find_name,
    pipeline_yaml,
    sizes_of,
    text_sizes,
    train_yaml,
    with_absolute_paths,
)
from clozeline.train.configuration.config import TrainConfig

_SEAL: Final = "# `clozeline new` replaces this file if nobody has changed it: "
"""Start of the last line of a file: the record that it is ours, and untouched."""
_MODEL_LINES: Final = "\n".join(
    [*(f"  {name}: {MODELS[name].use}" for name in [*MODELS][:5]), f"  or {', '.join(MODELS)}"]
)
_MARKUP_SHARE: Final = 0.1
"""Share of texts with HTML tags from which on it is told."""


@config_class
class ProjectSettings:
    """Settings of `clozeline new`; null: asked for on a terminal."""

    folder: Annotated[OutputPath, Positional(0, "DIR")]
    """folder to write, not the folder of the texts"""
    input: Inputs | None = None
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


def _write(settings: ProjectSettings) -> None:
    """Choose what the command line does not give, write the files, and say how to go on.

    On a terminal, a missing setting is asked for, elsewhere it has its default; the kind of the
    texts is measured on a sample.
    """
    ask = sys.stdin.isatty()
    if settings.input is not None:
        source = [*map(with_absolute_paths, settings.input)]
    elif ask:
        source = _ask("Your texts: a file, a folder or a glob", _read_input)
    else:
        raise ConfigurationError(
            "input is missing: give the folder of your texts, such as input=texts"
        )

    kind = None if settings.kind is None else check_name("kind", settings.kind, KINDS)
    if kind is not None and KINDS[kind].is_file_of_any_name:
        source = [*map(read_unknown_files_as_text, source)]
    sample = sample_texts(source)
    notes = []
    if kind is None:
        kind, why = choose_kind(sample)
        notes.append(f"kind={kind} ({KINDS[kind].use}): {why}")
    if sample.markup_share >= _MARKUP_SHARE:
        notes.append(
            f"{100 * sample.markup_share:.0f} % of the sampled texts hold HTML tags: to extract "
            "them, set `html: true` next to the path of rows, or `reader: html` for text files"
        )

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

    check_model = partial(check_name, "model", known=MODELS)
    model = "bert"
    if named := settings.model or settings.size:  # a size is one of a model
        model = check_model(named)
    elif ask:
        model = _ask(f"A small model:\n{_MODEL_LINES}\nName", check_model, model)

    sizes = sizes_of(model)
    size = settings.size and check_name("size", settings.size, sizes)
    of_name = find_name(settings.model or model, sizes)
    if not size and of_name not in (None, model):
        notes.append(f"model={model}, a small variant; for the size that you named: size={of_name}")

    notes += write_project(settings.folder.absolute(), source, kind, language, model, size)
    folder = shlex.quote(str(settings.folder))
    print(*notes, "Read and change both files, then:", sep="\n")
    print(f"  clozeline pipeline --config {folder}/pipeline.yaml")
    print(f"  clozeline train --config {folder}/train.yaml")


def _read_input(text: str) -> list[InputEntry]:
    """Return the input that an answer names."""
    return [*map(with_absolute_paths, validate(Inputs, parse_word(Inputs, text), "input"))]


def write_project(
    folder: Path,
    source: list[InputEntry],
    kind: str,
    language: str,
    model: str,
    size: str | None,
) -> list[str]:
    """Write the two files of a project, or replace those that nobody has changed.

    Return lines on what was written. Without a size, the model is a small variant.

    Raises:
        ConfigurationError: one of the two files was changed or is not ours, or the files would be
            refused. Nothing is written then.
    """
    files = [folder / name for name in ("pipeline.yaml", "train.yaml")]
    before = [file for file in files if os.path.lexists(file)]
    for file in before:
        if not _is_untouched(file):
            raise ConfigurationError(
                f"{file} exists, and is not as `clozeline new` wrote it: name another folder, or "
                "remove the file"
            )

    text = pipeline_yaml(folder, source, language, model, kind)
    data = parse_yaml(text)
    recipe = validate(Recipe, data, str(files[0]))
    check_recipe(recipe)
    if any(text_sizes(source)):
        check_inputs(recipe)  # refuses what `clozeline pipeline` refuses

    training = train_yaml(folder, language, model, grouping_of(recipe), size)
    config = validate(TrainConfig, parse_yaml(training), str(files[1]))
    vocabulary = tokenizer_stage(recipe).expected_tokenizer().vocabulary
    ids = {f"{name}_token_id": number for name, number in vocabulary.specials.items()}
    lines = describe_export(NewModel(config.model, vocabulary.size, ids))
    comment = "".join(f"# {line}\n" for line in lines)

    is_private = redact(data) != data
    publish_text(files[0], _seal(text), is_private=is_private)
    publish_text(files[1], _seal(training.replace("output:", f"{comment}output:", 1)))

    if before:
        lines.append(f"replaced, because nobody had changed them: {', '.join(map(str, before))}")
    if is_private:
        lines.append(
            f"{files[0]} holds secrets of the input, which the run needs: only you may read it "
            "(mode 600)"
        )
    return lines


def _seal(text: str) -> str:
    """Return the text of a file with a last line that tells whether somebody has changed it."""
    return f"{text}\n{_SEAL}{xxhash.xxh3_64_hexdigest(text.encode())}\n"


def _is_untouched(file: Path) -> bool:
    with suppress(OSError, ValueError):
        text = read_text(file)
        return not file.is_symlink() and text == _seal(text.rpartition(f"\n{_SEAL}")[0])
    return False


def grouping_of(recipe: Recipe) -> str:
    """Return the label of the sample set that the recipe's first objective reads."""
    vocabulary = tokenizer_stage(recipe).expected_tokenizer().vocabulary
    label: str = recipe.config_of("corrupt")[0].build(vocabulary).grouping.label
    return label


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ProjectSettings, _write)


if __name__ == "__main__":
    run_as_script(main)
