"""Import a published model: `clozeline import-model hf imported`.

DIR_IN is a transformers folder: config.json and weights (safetensors, or torch files without
classes), or a repository on the hub: hf://org/name, or hf://org/name@revision with a branch, tag or
commit. DIR_OUT gets model.yaml, model.safetensors with our parameter names, the tokenizer if DIR_IN
has one, and model.json with the origin and its commit. No code of DIR_IN is run.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.tools.command import ModelPath, OutputPath, run_as_script, run_tool

_TOKENIZER_FILES: Final = ("tokenizer.json", "vocab.txt", "vocab.json", "encoder.json")
"""Files of which a published tokenizer has at least one."""


@config_class
class ImportOptions:
    """A published model, and the folder to write."""

    source: Annotated[ModelPath, Positional(0, "DIR_IN")]
    """folder with config.json and weights, or hf://org/name"""
    output: Annotated[OutputPath, Positional(1, "DIR_OUT")]
    """new folder"""
    no_tokenizer: bool = False
    """import the model alone"""
    strict: bool = False
    """refuse heads that the model type does not have"""


def _import(options: ImportOptions) -> None:
    from clozeline.extensions.published.imported_folder import write_imported
    from clozeline.model.checkpoints.import_record import IMPORT_RECORD, MODEL
    from clozeline.model.checkpoints.reading import read_checkpoint
    from clozeline.tools.model_folder import TOKENIZER
    from clozeline.tools.output_folder import new_folder

    source = options.source

    if (source / MODEL).is_file():
        raise ConfigurationError(
            f"{source}: holds {MODEL}, it has been imported already: use it as it is"
        )

    with new_folder(options.output, last=IMPORT_RECORD) as folder:
        checkpoint = read_checkpoint(source, strict=options.strict)
        rows = checkpoint.vocab_size
        tokenizer = (
            "without a tokenizer"
            if options.no_tokenizer
            else add_tokenizer(source, folder / TOKENIZER, rows)
        )
        write_imported(folder, checkpoint, source)

    count = sum(tensor.numel() for tensor in checkpoint.tensors.values())
    model_type = checkpoint.model_type
    family = checkpoint.config.family
    about = f"{model_type}, family {family}, {count:,} parameters, vocabulary {rows:,}"
    print(f"{options.output}: {about}")
    print(*(f"  {note}" for note in (*checkpoint.notes, tokenizer)), sep="\n")


def add_tokenizer(source: Path, folder: Path, rows: int) -> str:
    """Import the tokenizer of a published model with `rows` embeddings, if it has a tokenizer.

    Return the line that reports the tokenizer.
    """
    if not any(os.path.lexists(source / name) for name in _TOKENIZER_FILES) and not any(
        source.glob("*.model")
    ):
        return f"without a tokenizer: {source} holds none of {', '.join(_TOKENIZER_FILES)}, *.model"

    tokenizer = import_tokenizer(source, folder)
    size = tokenizer.vocabulary.size
    if size > rows:
        raise ConfigurationError(
            f"{source}: its tokenizer has {size} ids, the model {rows} rows: they do not belong "
            "together; --no-tokenizer imports the model alone"
        )

    line = f"tokenizer: {size:,} ids, fingerprint {tokenizer.vocabulary.fingerprint[:16]}"
    return "\n  ".join(
        [line, *(f"assumed: {note}" for note in PublishedMetadata.find(folder).notes)]
    )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ImportOptions, _import)


if __name__ == "__main__":
    run_as_script(main)
