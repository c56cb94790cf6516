"""Export a model for transformers: `clozeline export-model RUN_OR_DIR DIR_OUT [parts=encoder]`.

RUN_OR_DIR is a training run, exported from the fp32 weights of its newest complete checkpoint, or a folder that
import_model wrote. DIR_OUT gets config.json, model.safetensors (or parts with an index), generation_config.json where
the class generates, the tokenizer and a model card; with `pooling` also the files that sentence-transformers needs. A
run with a generator and a discriminator becomes two folders of these names; an adapter is merged into its base model.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.files import publish_json, publish_text
from clozeline.pipeline.tokenize.published.exporting import END, Frame, export_tokenizer
from clozeline.pipeline.tokenize.published.folders import GENERATION, MODEL
from clozeline.tools.command import (
    Arguments,
    byte_count,
    checkpoint_step,
    model_path,
    run_as_script,
    run_tool,
    some_path,
)
from clozeline.tools.models.export.model_card import model_card, words_section
from clozeline.tools.models.export.sentence_embeddings import POOLINGS, choose_pooling, write_modules
from clozeline.train.checkpoint.trained_model import TrainedModel

if TYPE_CHECKING:
    from clozeline.model.checkpoints import Export
    from clozeline.model.configuration.model_config import Quantization

_SHOWN: Final = 80
"""Characters of a text that a message shows."""


def _export(options: argparse.Namespace) -> None:
    from clozeline.tools.model_folder import require_empty

    require_empty(options.output)
    _write_exports(TrainedModel.open(options.source, options.step, quantized=False), options)


def export_quantized(run: TrainedModel, output: Path, quantization: Quantization) -> None:
    """Write a model that a class of transformers holds, with integer weights of its linear maps."""
    _write_exports(run, _arguments().parse_args([str(run.folder), str(output)]), quantization)


def _write_exports(run: TrainedModel, options: argparse.Namespace, quantization: Quantization | None = None) -> None:
    """Write the folders of a model, and load each once."""
    from clozeline.model.checkpoints import export_checkpoint, split, with_heads
    from clozeline.tools.model_folder import write_weights
    from clozeline.tools.models.export.exportable import exported_form
    from clozeline.tools.models.export.model_card import load_and_call
    from clozeline.train.startup.exported_form import without_off_ramps

    checkpoint = without_off_ramps(exported_form(run))
    if options.pooling:
        alone, named = options.parts == "encoder", run.tokenizer_folder is not None
        options.pooling = choose_pooling(checkpoint, options.pooling, encoder_alone=alone, tokenizer=named)
    if options.head:
        checkpoint = with_heads(checkpoint, options.head)
    exports = {
        options.output / name: export_checkpoint(part, model_type=options.type, body_alone=options.parts == "encoder")
        for name, part in split(checkpoint).items()
    }
    for folder, export in exports.items():
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = _export_tokenizer(folder, run, export.config)
        parameters = sum(tensor.numel() for tensor in export.tensors.values())
        if quantization is None:
            write_weights(folder, export.tensors, options.max_shard_size)
        else:
            from clozeline.tools.models.export.torchao_format import write_torchao

            export = write_torchao(folder, export, checkpoint, quantization)
        _write_folder(folder, options, run, checkpoint.published, export, parameters)
        try:
            loaded = load_and_call(folder, export.loader, export.loader_options)
        except ConfigurationError:
            shutil.rmtree(folder)
            raise
        print(f"{folder}: {export.config['architectures'][0]}, {parameters:,} parameters, {loaded}")
        changed = ", ".join(_changed_keys(checkpoint.published, export))
        but = f", but for {changed}" if changed else ""
        configs = f"config.json: as published{but}" if checkpoint.published else ""
        notes = (*checkpoint.notes, configs, tokenizer, _compare_frames(folder, run))
        print(*(f"  {note}" for note in notes if note), sep="\n")


def _export_tokenizer(folder: Path, run: TrainedModel, model: Mapping[str, object]) -> str:
    from clozeline.tools.models.export.exportable import (
        blanks_of,
        frame_of,
        reads_task_rows,
        role_before_texts,
        row_length,
    )

    if run.tokenizer_folder is None:
        return "without a tokenizer: none was found"
    config = run.checkpoint.config
    frame = frame_of(run.recorded[0]) if run.recorded else None
    if frame is None:
        frame = Frame() if config.architecture == "decoder" else END if config.position.kind == "t5" else None
    report = export_tokenizer(
        run.tokenizer_folder, folder, frame=frame, start=role_before_texts(run.recorded[0]) if run.recorded else "bos",
        max_length=row_length(run), cuts_texts=reads_task_rows(run), blanks=blanks_of(run),
        type_ids=config.type_vocab_size > 1, model=model,
    )  # fmt: skip
    first = f", such as {report.differing[0][:_SHOWN]!r}" if report.differing else ""
    compared = f"{report.texts} texts compared with split_special_tokens=True"
    lines = [f"tokenizer: {compared}, {len(report.differing) or 'none'} with other ids{first}"]
    if report.published:
        lines.append(f"as published: {', '.join(report.published)}")
    if report.edited:
        lines.append(f"as published, but for {', '.join(report.edited)}: tokenizer_config.json")
    if report.changed:
        lines.append(f"written anew from {', '.join(report.changed)}: tokenizer.json, tokenizer_config.json")
    return "\n  ".join(lines)


def _compare_frames(folder: Path, run: TrainedModel) -> str:
    """Return a line about the special tokens of training rows, or why there are none to compare."""
    if run.tokenizer_folder is None or not run.recorded:
        return ""
    from clozeline.pipeline.shards import open_shards
    from clozeline.tools.models.export.framed_rows import compare_frames
    from clozeline.tools.models.export.quiet_transformers import import_transformers

    try:
        rows = open_shards(Path(run.recorded[0].path))
    except ClozelineError as error:  # it may have been moved
        return f"frame: not compared with training rows: {error}"
    exported = import_transformers("export-model").AutoTokenizer.from_pretrained(folder, local_files_only=True)
    objective = run.recorded[0].objective
    prompt = objective.architecture == "decoder" and "lm" in objective.heads
    ids = (row["input_ids"] for row in rows if "input_ids" in row)
    return compare_frames(ids, run.tokenizer, exported, is_prompt=prompt)


def _write_folder(
    folder: Path,
    options: argparse.Namespace,
    run: TrainedModel,
    published: Mapping[str, str],
    export: Export,
    parameters: int,
) -> None:
    """Write the files next to the weights; config.json, which every loader needs, is last."""
    from clozeline.tools.models.export.exportable import card_rows, row_length

    if options.pooling:
        write_modules(folder, options.pooling, run.checkpoint, row_length(run))
    if export.generation and not (folder / GENERATION).exists():  # a published tokenizer brings its publisher's
        if GENERATION in published:
            publish_text(folder / GENERATION, published[GENERATION])
        elif not published:  # else the class takes them from config.json, as it did
            publish_json(folder / GENERATION, export.generation)
    mark = None
    if run.tokenizer_folder is not None:  # the mask, or any other special token
        specials = run.tokenizer.vocabulary.specials
        mark = run.tokenizer.piece(specials.get("mask", next(iter(specials.values()))))
    languages = tuple(options.language) or (run.recorded[0].languages if run.recorded else ())
    config = run.checkpoint.config
    words = words_section(config.architecture) if "tagging" in config.heads and not options.pooling else ""
    card = model_card(
        folder.name, export.loader, parameters, card_rows(run), licence=options.licence, languages=languages,
        mark=mark, options=export.loader_options, words=words,
    )  # fmt: skip
    publish_text(folder / "README.md", card)
    if not _changed_keys(published, export):
        publish_text(folder / MODEL, published[MODEL])
    else:
        publish_json(folder / MODEL, export.config)


def _changed_keys(texts: Mapping[str, str], export: Export) -> list[str]:
    """Return the keys of config.json that differ from the published one; without it, all of them."""
    published, absent = json.loads(texts.get(MODEL, "{}")), object()
    keys = published.keys() | export.config.keys()
    return sorted(key for key in keys if published.get(key, absent) != export.config.get(key, absent))


def _arguments() -> Arguments:
    parser = Arguments(__doc__)
    parser.add_argument("source", type=model_path, metavar="RUN_OR_DIR", help="training run, or folder with a model")
    parser.add_argument("output", type=some_path, metavar="DIR_OUT", help="new folder")
    parser.add_argument("--parts", choices=["all", "encoder"], default="all", help="encoder: the model without heads")
    parser.add_argument("--head", action="append", default=[], metavar="NAME", help="a head; may be repeated (all)")
    parser.add_argument(
        "--pooling", choices=POOLINGS, help="with parts=encoder: for sentence-transformers; run: as trained"
    )
    size = "largest file of weights (%(default)s)"
    parser.add_argument("--max-shard-size", type=byte_count, default="50GB", metavar="SIZE", help=size)
    parser.add_argument("--type", metavar="TYPE", help="model type of transformers (default: the one that fits)")
    step_help = "step of the checkpoint; best: the one with the lowest held-out loss (the newest complete one)"
    parser.add_argument("--step", type=checkpoint_step, metavar="N", help=step_help)
    parser.add_argument("--licence", default="unknown", metavar="TEXT", help="for the model card (%(default)s)")
    parser.add_argument("--language", action="append", default=[], metavar="CODE", help="for the card; may be repeated")
    return parser


def main(arguments: Sequence[str]) -> int:
    return run_tool(_arguments(), arguments, _export)


if __name__ == "__main__":
    run_as_script(main)
