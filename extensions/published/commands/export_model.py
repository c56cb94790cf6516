"""Export a model for transformers: `clozeline export-model mine/run hf [parts=encoder]`.

RUN_OR_DIR is a training run, exported from the fp32 weights of its newest complete checkpoint, or a
folder that import_model wrote. DIR_OUT gets config.json, model.safetensors, generation_config.json
where the transformers class generates texts, the tokenizer and a model card; with `pooling` also
the files that sentence-transformers needs. A run with a
generator and a discriminator becomes the two folders DIR_OUT/generator and DIR_OUT/discriminator.
An adapter is merged into its base model.
"""

import re
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from clozeline.command_line import Positional
from clozeline.configuration.config import Names, config_class
from clozeline.extensions.published.export_plan import (
    ExportPlan,
    ExportRequest,
    exported_form,
    parts_of,
    plan_export,
)
from clozeline.extensions.published.verification import compare_training_rows, load_and_compare
from clozeline.extensions.published.writing import write_model
from clozeline.files import require_empty
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.configuration.model_config import Quantization
from clozeline.pipeline.text.language_codes import require_code
from clozeline.pipeline.tokenize.published.folders import MODEL
from clozeline.tools.command import ModelPath, OutputPath, run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice
from clozeline.tools.output_folder import new_folder
from clozeline.train.checkpoint.trained_model import TrainedModel

_EXIT_NO_TRANSFORMERS_CLASS: Final = 64
"""Exit code of a dry run that finds no transformers class for a model of the plan."""


@config_class
class ExportModelOptions(CheckpointChoice):
    """The model to export, and which files to write."""

    source: Annotated[ModelPath, Positional(0, "RUN_OR_DIR")]
    """training run, or folder with a model"""
    output: Annotated[OutputPath, Positional(1, "DIR_OUT")]
    """new folder"""
    parts: Literal["all", "encoder"] = "all"
    """encoder: the model without heads"""
    head: Names = field(default_factory=list)
    """a head; may be repeated; default: all"""
    pooling: Literal["run", "mean", "cls", "max", "last", "pooler"] | None = None
    """with parts=encoder: how sentence-transformers pools token vectors; run: as the run was
    trained"""
    type: str | None = None
    """model type of transformers; default: the type that fits the model"""
    license: str = "unknown"
    """id for the model card, such as mit or apache-2.0"""
    language: Names = field(default_factory=list)
    """code for the model card, such as en; may be repeated"""
    dry_run: bool = False
    """print what would be written, and write nothing"""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", self.license):
            raise ValueError(
                f"license: expected an id such as mit or apache-2.0, got '{self.license}'"
            )
        for code in self.language:
            require_code("language", code)


def _export(options: ExportModelOptions) -> int:
    if not options.dry_run:
        require_empty(options.output)

    trained = TrainedModel.open(options.source, options.step, quantized=False)
    checkpoint = exported_form(trained)
    body_alone = options.parts == "encoder"
    heads = tuple(options.head)
    request = ExportRequest(options.type, heads, body_alone, options.pooling)
    plan = plan_export(
        checkpoint, request, tokenizer=trained.tokenizer_folder, recorded=trained.recorded
    )

    if options.dry_run:
        print(*plan.lines(), sep="\n")
        return (
            0 if all(model.architecture for model in plan.models) else _EXIT_NO_TRANSFORMERS_CLASS
        )

    with new_folder(options.output, last=MODEL) as folder:
        lines = _write_and_verify(folder, plan, checkpoint, trained, options)
    print(*lines, sep="\n")
    return 0


def export_quantized(
    trained: TrainedModel, folder: Path, output: Path, quantization: Quantization
) -> None:
    """Export a model to transformers with quantized (integer) weights of the linear layers.

    The files are written to `folder`, which becomes `output`.
    """
    options = ExportModelOptions(source=trained.folder, output=output)
    checkpoint = exported_form(trained)
    request = ExportRequest(quantization=quantization)
    plan = plan_export(
        checkpoint, request, tokenizer=trained.tokenizer_folder, recorded=trained.recorded
    )
    print(*_write_and_verify(folder, plan, checkpoint, trained, options), sep="\n")


def _write_and_verify(
    folder: Path,
    plan: ExportPlan,
    checkpoint: Checkpoint,
    trained: TrainedModel,
    options: ExportModelOptions,
) -> list[str]:
    """Write the models of a plan, load each, compare its scores; return the lines of the report."""
    lines = []

    for model_name, model in parts_of(checkpoint, plan.request).items():
        output = options.output / model_name
        written = write_model(
            folder / model_name,
            output.name,
            plan,
            model,
            trained,
            part_name=model_name,
            license_id=options.license,
            languages=options.language,
        )

        loaded = load_and_compare(folder / model_name, output, replace(written.export, model=model))
        architecture = written.export.architecture
        parameters = written.parameters
        lines.append(f"{output}: {architecture}, {parameters:,} parameters, {loaded}")
        notes = (*written.notes, compare_training_rows(folder / model_name, trained))
        lines += [f"  {note}" for note in notes if note]

    return lines


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ExportModelOptions, _export)


if __name__ == "__main__":
    run_as_script(main)
