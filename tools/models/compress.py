"""Make a trained model smaller: `clozeline compress RUN_OR_DIR method=NAME [keep=... sparsity=...] output=DIR`.

RUN_OR_DIR is a run, a folder that import_model wrote, or one of transformers. DIR becomes a run, or
a folder as import_model writes it: evaluate, generate, fill-mask, export-model and
`model.init_from` read it. Integers (int8, int8_dynamic, int4) are written as transformers loads
them, by torchao: pip install 'clozeline[torchao]'; the first three commands compute with them.
Methods are listed below with their keys. `heads` and `rows` read `rows` rows of the run's training
set, or of `data=SHARDS`. At the end the row of the table is printed, with `task=FOLDER` also the
scores.

`clozeline compress --compare DENSE DIR ... [task=FOLDER]` prints the table of several models, the
first of which is the dense one. A folder of finetune with runs seed-0, seed-1, ... is one row.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.configuration.named_algorithms import IsName
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import WEIGHTS, Checkpoint, export_checkpoint
from clozeline.model.compression.methods import Batch, Method
from clozeline.model.configuration.model_config import Quantization
from clozeline.model.registries import METHODS
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import (
    IntermixedArguments,
    add_settings,
    model_path,
    run_as_script,
    run_tool,
    settings_of,
    split_settings,
)
from clozeline.tools.model_folder import write_imported
from clozeline.tools.models.compression.comparison import (
    MeasureOptions,
    Row,
    measure_row,
    table_lines,
)
from clozeline.tools.models.compression.written_models import (
    model_folder,
    write_compressed,
    write_record,
)
from clozeline.tools.models.export.torchao_format import integers_of_class
from clozeline.tools.models.export_model import export_quantized
from clozeline.tools.runs.data.run_sets import open_first_set
from clozeline.tools.runs.inference.fisher_information import draw_rows
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.startup.export_plan import exported_form
from clozeline.train.startup.initial_weights import refuse_other_ids


@config_class
class CompressOptions(MeasureOptions):
    """A method, its calibration rows, and the output; further keys belong to the method."""

    method: Annotated[str, IsName()]
    """a file of model/compression/methods: layers, heads, rows, magnitude, int8, int8_dynamic,
    int4"""
    output: Annotated[Path, HOME_EXPANDED]
    """new folder"""
    data: Annotated[Path, HOME_EXPANDED] | None = None
    """shard set of the calibration rows; default: the run's first training set"""
    rows: Annotated[int, Field(ge=0)] = 128
    """calibration rows; 0: none, importance then comes only from the weights"""
    seed: Annotated[int, Field(ge=0)] = 0
    """seed of the drawn rows"""


def compress(source: Path, words: Sequence[str]) -> Row:
    """Write a smaller model, and return its row of the table.

    Raises:
        ConfigurationError: the model, the method or its options do not fit together; nothing was
            written.
    """
    options, rest = split_settings(CompressOptions, words)
    kind = METHODS.load_class(options.method)
    opened = _write_smaller(source, options, kind(settings_of(kind.Options, rest)))
    return measure_row(options.output, source, options, opened=opened)


def _write_smaller(source: Path, options: CompressOptions, method: Method) -> list[TrainedModel]:
    """Write the smaller model; return the model before and this one, which share what is equal in memory."""
    run = TrainedModel.open(source, quantized=False)
    dense = exported_form(run)
    if dense.absent:
        raise ConfigurationError(
            f"{source}: holds a body without a head, which no tool reads; fine-tune it first"
        )
    with model_folder(options.output, source, run.tokenizer_folder):
        compressed = method.compress(dense, _calibration(run, method, options))
        write_record(options.output, run, options.method, method, compressed.lines)
        if method.quantization is None:
            write_compressed(run, options.output, compressed.checkpoint, options.method)
        else:
            _write_integers(run, dense, options.output, compressed.checkpoint, method.quantization)
    sys.stdout.write(
        "".join(f"{line}\n" for line in (f"{options.output}: {options.method}", *compressed.lines))
    )
    is_run = run.config is not None and method.quantization is None
    smaller = replace(compressed.checkpoint, files=() if is_run else (options.output / WEIGHTS,))
    after = (
        replace(run, checkpoint=smaller)
        if is_run
        else TrainedModel(options.output, smaller, run.recorded)
    )
    return [replace(run, checkpoint=dense), after]


def _write_integers(
    run: TrainedModel,
    dense: Checkpoint,
    output: Path,
    smaller: Checkpoint,
    quantization: Quantization,
) -> None:
    """Write a folder that transformers loads; in our format, if no class of it holds the model."""
    try:
        export_checkpoint(dense)
        integers_of_class(dense, quantization)
    except ConfigurationError as error:
        write_imported(output, smaller, run.folder)
        sys.stdout.write(f"{output}: in our format, which transformers does not load: {error}\n")
    else:
        export_quantized(run, output, quantization)


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
    refuse_other_ids(
        TrainedModel(options.output, run.checkpoint), shards, "data"
    )  # with the tokenizer that is there by now
    return list(draw_rows(shards, options.rows, options.seed))


def compare(folders: Sequence[Path], words: Sequence[str]) -> list[Row]:
    """Return the row of each model; the first is the dense one."""
    options = settings_of(MeasureOptions, words)
    rows: list[Row] = []
    for folder in folders:
        rows.append(measure_row(folder, folders[0], options, rows[0].score if rows else None))
    return rows


def main(arguments: Sequence[str]) -> int:
    parser = IntermixedArguments(__doc__)
    several = "the table of several models, the first is the dense one"
    parser.add_argument("--compare", action="store_true", help=several)
    options: list[Any] = [METHODS.load_class(name).Options for name in METHODS.available()]
    add_settings(
        parser, CompressOptions, *options, help_text="RUN_OR_DIR, and settings, listed below"
    )

    def action(parsed: argparse.Namespace) -> None:
        words = [word for word in parsed.overrides if re.match(r"[a-z_]+(\.[a-z_]+)*=", word)]
        folders = [model_path(word) for word in parsed.overrides if word not in words]
        count = len(folders)
        if parsed.compare and count < 2:
            raise ConfigurationError(
                f"--compare: expected the dense model and others, got {count} folders"
            )
        if not parsed.compare and count != 1:
            raise ConfigurationError(
                f"expected one run or model folder, got {count}; several need --compare"
            )
        rows = compare(folders, words) if parsed.compare else [compress(folders[0], words)]
        sys.stdout.write("".join(f"{line}\n" for line in table_lines(rows)))

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    run_as_script(main)
