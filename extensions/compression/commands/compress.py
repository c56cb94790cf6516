"""Make a trained model smaller.

    clozeline compress mine/run method=int8 output=small [keep=... sparsity=...]

RUN_OR_DIR is a run, a folder that import_model wrote, or one of transformers. The output becomes a
run, or a folder as import_model writes it: other commands and `model.init_from` read it. Integers
(int8, int8_dynamic, int4) are written as transformers loads them, by torchao: pip install
'clozeline[torchao]'; commands that use the model compute with them.
Methods are listed below with their keys. `heads` and `rows` read `rows` rows of the run's training
set, or of `data=SHARDS`. At the end the row of the table is printed, with `task=FOLDER` also the
scores.

`clozeline compress --compare DENSE DIR ... [task=FOLDER]` prints the table of several models, the
first of which is the dense one. A folder of finetune with runs seed-0, seed-1, ... is one row.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from clozeline.command_line import ChoosesMode, OtherKeys, Positional
from clozeline.configuration.config import config_class, load_keys
from clozeline.configuration.named_algorithms import IsName
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.comparison import (
    MeasureOptions,
    ModelRow,
    measure_row,
    table_lines,
)
from clozeline.extensions.compression.methods import Batch, Method
from clozeline.extensions.compression.registries import METHODS
from clozeline.extensions.compression.written_models import (
    write_compressed,
    write_record,
    write_tokenizer,
)
from clozeline.extensions.published.commands.export_model import export_quantized
from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.export_plan import exported_form
from clozeline.extensions.published.imported_folder import write_imported
from clozeline.extensions.published.torchao_format import integers_of_class
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.checkpoints.import_record import WEIGHTS
from clozeline.model.configuration.model_config import Quantization
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import (
    ModelPath,
    Natural,
    OutputPath,
    UserPath,
    run_as_script,
    run_tool,
)
from clozeline.tools.output_folder import new_folder
from clozeline.tools.runs.data.run_sets import open_first_set
from clozeline.tools.runs.inference.fisher_information import draw_rows
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.token_ids import refuse_other_ids


def _options_of_methods(words: Sequence[str]) -> Iterator[type]:
    """Yield the options of each method."""
    for method in METHODS.classes().values():
        yield method.Options


@config_class
class CompressOptions(MeasureOptions):
    """A method, its calibration rows, and the output; further keys belong to the method."""

    source: Annotated[ModelPath, Positional(0, "RUN_OR_DIR")]
    """the model to compress"""
    method: Annotated[str, IsName()]
    """a file of extensions/compression/methods: layers, heads, rows, magnitude, int8, int8_dynamic,
    int4"""
    output: OutputPath
    """new folder"""
    data: UserPath | None = None
    """shard set of the calibration rows; default: the run's first training set"""
    rows: Natural = 128
    """calibration rows; 0: none, importance then comes only from the weights"""
    seed: Natural = 0
    """seed of the drawn rows"""
    words: Annotated[
        tuple[str, ...], OtherKeys("options of the method, listed below", _options_of_methods)
    ] = ()


@config_class
class TableOptions(MeasureOptions):
    """Models of which a table is printed."""

    compare: Annotated[bool, ChoosesMode()]
    """print the table of several models, the first of which is the dense one"""
    models: Annotated[list[ModelPath], Positional(0)] = Field(default_factory=list)
    """the dense model, then others"""


def compress(options: CompressOptions) -> ModelRow:
    """Write a smaller model, and return its row of the table.

    Raises:
        ConfigurationError: the model, the method or its options do not fit together; nothing was
            written.
    """
    method = METHODS.load_class(options.method)
    opened = _write_smaller(options, method(load_keys(method.Options, {}, options.words)))
    return measure_row(options.output, options.source, options, opened=opened)


def _write_smaller(options: CompressOptions, method: Method) -> list[TrainedModel]:
    """Write the smaller model.

    Return the model before and after; they share equal tensors in memory.
    """
    source = options.source
    run = TrainedModel.open(source, quantized=False)
    dense = exported_form(run)
    if dense.absent:
        raise ConfigurationError(
            f"{source}: holds a body without a head, which no tool reads; fine-tune it first"
        )

    output = options.output
    with new_folder(output) as folder:
        write_tokenizer(folder, source, run.tokenizer_folder)
        compressed = method.compress(dense, _calibration(run, method, options))
        write_record(folder, run, options.method, method, compressed.lines)
        smaller = compressed.checkpoint
        if method.quantization is None:
            write_compressed(run, folder, output, smaller, options.method)
        else:
            _write_integers(run, dense, folder, output, smaller, method.quantization)

    sys.stdout.write(
        "".join(f"{line}\n" for line in (f"{output}: {options.method}", *compressed.lines))
    )
    is_run = run.config is not None and method.quantization is None
    smaller = replace(smaller, files=() if is_run else (output / WEIGHTS,))
    after = (
        replace(run, checkpoint=smaller) if is_run else TrainedModel(output, smaller, run.recorded)
    )

    return [replace(run, checkpoint=dense), after]


def _write_integers(
    run: TrainedModel,
    dense: Checkpoint,
    folder: Path,
    output: Path,
    smaller: Checkpoint,
    quantization: Quantization,
) -> None:
    """Write a folder that transformers loads; in our format, if no class of it holds the model."""
    try:
        export_checkpoint(dense)
        integers_of_class(dense, quantization)
    except ConfigurationError as error:
        write_imported(folder, smaller, run.folder)
        sys.stdout.write(f"{output}: in our format, which transformers does not load: {error}\n")
    else:
        export_quantized(run, folder, output, quantization)


def _calibration(run: TrainedModel, method: Method, options: CompressOptions) -> list[Batch]:
    """Return the calibration rows that a method reads, a batch each."""
    if not (
        method.calibrates and options.rows and (options.data is not None or run.config is not None)
    ):
        return []
    if options.data is not None:
        shards = open_shards(options.data)
    else:
        shards = open_first_set(run.folder, run.require_config().data)
    refuse_other_ids(run.ids, shards, "data")
    return list(draw_rows(shards, options.rows, options.seed))


def compare(options: TableOptions) -> list[ModelRow]:
    """Return the row of each model; the first is the dense one."""
    rows: list[ModelRow] = []
    for folder in options.models:
        score = rows[0].score if rows else None
        rows.append(measure_row(folder, options.models[0], options, score))
    return rows


def _run(options: CompressOptions | TableOptions) -> None:
    if isinstance(options, CompressOptions):
        rows = [compress(options)]
    elif len(options.models) < 2:
        raise ConfigurationError(
            f"--compare: expected the dense model and others, got {len(options.models)} folders"
        )
    else:
        rows = compare(options)
    sys.stdout.write("".join(f"{line}\n" for line in table_lines(rows)))


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, (CompressOptions, TableOptions), _run)


if __name__ == "__main__":
    run_as_script(main)
