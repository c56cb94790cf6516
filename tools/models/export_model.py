"""Export a model for transformers: `clozeline export-model RUN_OR_DIR DIR_OUT [parts=encoder]`.

RUN_OR_DIR is a training run, exported from the fp32 weights of its newest complete checkpoint, or a
folder that import_model wrote. DIR_OUT gets config.json, model.safetensors (or parts with an
index), generation_config.json where the class generates, the tokenizer and a model card; with
`pooling` also the files that sentence-transformers needs. A run with a generator and a
discriminator becomes two folders of these names; an adapter is merged into its base model.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import Checkpoint
from clozeline.model.configuration.model_config import Quantization
from clozeline.tools.command import (
    Arguments,
    byte_count,
    checkpoint_step,
    model_path,
    run_as_script,
    run_tool,
    some_path,
)
from clozeline.tools.model_folder import require_empty
from clozeline.tools.models.export.verification import compare_training_rows, load_and_compare
from clozeline.tools.models.export.writing import new_folder, write_model
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.startup.export_plan import (
    POOLINGS,
    ExportPlan,
    ExportRequest,
    exported_form,
    parts_of,
    plan_export,
)

_NO_CLASS: Final = 64
"""Exit code of a plan that no class of transformers holds."""


def _export(options: argparse.Namespace) -> int:
    if not options.dry_run:
        require_empty(options.output)
        if options.json:
            raise ConfigurationError(
                "json: expected dry_run=true next to it: only a plan is printed as JSON"
            )
    trained = TrainedModel.open(options.source, options.step, quantized=False)
    checkpoint = exported_form(trained)
    body_alone = options.parts == "encoder"
    heads = tuple(options.head)
    request = ExportRequest(
        options.type, heads, body_alone, options.pooling, options.max_shard_size
    )
    plan = plan_export(
        checkpoint, request, tokenizer=trained.tokenizer_folder, recorded=trained.recorded
    )
    if options.dry_run:
        print(
            json.dumps(plan.as_dict(), indent=2)
            if options.json
            else "\n".join([*plan.lines(), *plan.file_lines()])
        )
        return 0 if all(model.architecture for model in plan.models) else _NO_CLASS
    with new_folder(options.output) as folder:
        lines = _write_and_verify(folder, plan, checkpoint, trained, options)
    print(*lines, sep="\n")
    return 0


def export_quantized(trained: TrainedModel, output: Path, quantization: Quantization) -> None:
    """Write a model that a class of transformers holds, with integer weights of its linear maps."""
    options = _arguments().parse_args([str(trained.folder), str(output)])
    checkpoint = exported_form(trained)
    request = ExportRequest(quantization=quantization)
    plan = plan_export(
        checkpoint, request, tokenizer=trained.tokenizer_folder, recorded=trained.recorded
    )
    print(*_write_and_verify(output, plan, checkpoint, trained, options), sep="\n")


def _write_and_verify(
    folder: Path,
    plan: ExportPlan,
    checkpoint: Checkpoint,
    trained: TrainedModel,
    options: argparse.Namespace,
) -> list[str]:
    """Write the models of a plan, load each, and compare it; return what there is to say."""
    lines = []
    for part, model in parts_of(checkpoint, plan.request).items():
        name = options.output / part
        written = write_model(
            folder / part,
            name.name,
            plan,
            model,
            trained,
            license_id=options.license,
            languages=options.language,
        )
        loaded = load_and_compare(folder / part, name, written.export)
        architecture = written.export.architecture
        parameters = written.parameters
        lines.append(f"{name}: {architecture}, {parameters:,} parameters, {loaded}")
        notes = (*written.notes, compare_training_rows(folder / part, trained))
        lines += [f"  {note}" for note in notes if note]
    return lines


def _arguments() -> Arguments:
    parser = Arguments(__doc__)
    parser.add_argument(
        "source", type=model_path, metavar="RUN_OR_DIR", help="training run, or folder with a model"
    )
    parser.add_argument("output", type=some_path, metavar="DIR_OUT", help="new folder")
    parser.add_argument(
        "--parts",
        choices=["all", "encoder"],
        default="all",
        help="encoder: the model without heads",
    )
    parser.add_argument(
        "--head", action="append", default=[], metavar="NAME", help="a head; may be repeated (all)"
    )
    parser.add_argument(
        "--pooling",
        choices=POOLINGS,
        help="with parts=encoder: for sentence-transformers; run: as trained",
    )
    size = "largest file of weights (%(default)s)"
    parser.add_argument(
        "--max-shard-size", type=byte_count, default="50GB", metavar="SIZE", help=size
    )
    parser.add_argument(
        "--type", metavar="TYPE", help="model type of transformers (default: the one that fits)"
    )
    step_help = (
        "step of the checkpoint; best: the one with the lowest held-out loss (the newest complete "
        "one)"
    )
    parser.add_argument("--step", type=checkpoint_step, metavar="N", help=step_help)
    parser.add_argument(
        "--license", default="unknown", metavar="TEXT", help="for the model card (%(default)s)"
    )
    parser.add_argument(
        "--language",
        action="append",
        default=[],
        metavar="CODE",
        help="for the card; may be repeated",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be written, and write nothing"
    )
    parser.add_argument(
        "--json", action="store_true", help="with --dry-run: print the plan as JSON"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    return run_tool(_arguments(), arguments, _export)


if __name__ == "__main__":
    run_as_script(main)
