"""Export a model for transformers: `clozeline export-model RUN_OR_DIR DIR_OUT [--parts encoder]`.

RUN_OR_DIR is a training run, whose fp32 weights of the newest whole checkpoint are taken, or a folder that
import_model wrote. DIR_OUT gets config.json, model.safetensors (or parts with an index), generation_config.json where
the class generates, the tokenizer, and a model card; with --pooling also the files by which sentence-transformers loads
it. A run with a generator and a discriminator becomes two folders of these names in DIR_OUT; the adapter of a run is
merged into the model beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clozeline.files import publish, publish_json
from clozeline.model.checkpoints import Export, export_checkpoint, split, with_heads
from clozeline.pipeline.tokenize.published.exporting import Frame, export_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.command import Arguments, natural, run_tool, some_path
from clozeline.tools.model_folder import refuse_full
from clozeline.tools.models.export.exportable import Exportable, open_exportable
from clozeline.tools.models.export.model_card import model_card
from clozeline.tools.models.export.sentence_embeddings import POOLINGS, check_pooling, write_modules
from clozeline.tools.models.export.weight_files import byte_count, write_weights

_SPECIALS: Final = "specials in text"


def _export(options: argparse.Namespace) -> int:
    refuse_full(options.output)
    found = open_exportable(options.source, options.step)
    whole = with_heads(found.checkpoint, options.head) if options.head else found.checkpoint
    if options.pooling:
        alone, named = options.parts == "encoder", found.tokenizer is not None
        check_pooling(found.checkpoint.config, encoder_alone=alone, tokenizer=named)
    exports = {
        options.output / name: export_checkpoint(part, model_type=options.type, body_alone=options.parts == "encoder")
        for name, part in split(whole).items()
    }
    for folder, export in exports.items():
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = _export_tokenizer(folder, found)
        _write(folder, options, found, export)
        kind = export.config["architectures"][0]
        print(f"{folder}: {kind}, {_parameters(export):,} parameters, loaded by {export.loader}")
        for note in found.checkpoint.notes:
            print(f"  {note}")
        print(f"  {tokenizer}")
    return 0


def _export_tokenizer(folder: Path, found: Exportable) -> str:
    """Write the tokenizer where there is one; return what to say of it."""
    if found.tokenizer is None:
        return "without a tokenizer: none was found"
    config = found.checkpoint.config
    frame: Frame | None = None
    if config.architecture == "decoder":
        frame = "none"
    elif config.position.kind == "t5":
        frame = "end"
    report = export_tokenizer(
        found.tokenizer,
        folder,
        frame=frame,
        max_length=config.position.limit,
        type_ids=config.type_vocab_size > 1,
    )
    differing = ", ".join(f"{count} by {cause}" for cause, count in report.differing.items()) or "none with other ids"
    mended = " (equal with split_special_tokens=True)" if _SPECIALS in report.differing else ""
    return f"tokenizer: {report.texts} texts compared, {differing.replace(_SPECIALS, _SPECIALS + mended)}"


def _write(folder: Path, options: argparse.Namespace, found: Exportable, export: Export) -> None:
    """Write the folder; config.json, without which nothing loads, is last."""
    write_weights(folder, export.tensors, options.max_shard_size)
    if options.pooling:
        write_modules(folder, options.pooling, found.checkpoint.config)
    if export.generation:
        publish_json(folder / "generation_config.json", export.generation)
    languages = tuple(options.language) or found.languages
    card = model_card(
        folder.name,
        export.loader,
        _parameters(export),
        found.facts,
        licence=options.licence,
        languages=languages,
        mark=None if found.tokenizer is None else _special(found.tokenizer),
        options=export.loader_options,
    )
    with publish(folder / "README.md") as temporary:
        temporary.write_text(card, encoding="utf-8")
    publish_json(folder / "config.json", export.config)


def _special(folder: Path) -> str:
    """Return a special token of a tokenizer: the mask, where it has one."""
    tokenizer = load_tokenizer(folder)
    specials = tokenizer.vocabulary.specials
    return tokenizer.piece(specials["mask"] if "mask" in specials else next(iter(specials.values())))


def _parameters(export: Export) -> int:
    return sum(tensor.numel() for tensor in export.tensors.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("source", type=some_path, metavar="RUN_OR_DIR", help="training run, or folder with a model")
    parser.add_argument("output", type=some_path, metavar="DIR_OUT", help="new folder")
    parser.add_argument("--parts", choices=["all", "encoder"], default="all", help="encoder: the body without its head")
    parser.add_argument("--head", action="append", default=[], metavar="NAME", help="a head; may be repeated (all)")
    parser.add_argument("--pooling", choices=POOLINGS, help="with --parts encoder: for sentence-transformers")
    parser.add_argument(
        "--max-shard-size",
        type=byte_count,
        default="50GB",
        metavar="SIZE",
        help="largest file of weights (%(default)s)",
    )
    parser.add_argument("--type", metavar="TYPE", help="model type of transformers (default: the one that fits)")
    parser.add_argument("--step", type=natural, metavar="N", help="the checkpoint of step N (the newest whole one)")
    parser.add_argument("--licence", default="unknown", metavar="TEXT", help="for the model card (%(default)s)")
    parser.add_argument("--language", action="append", default=[], metavar="CODE", help="for the card; may be repeated")
    return run_tool(parser, arguments, _export)


if __name__ == "__main__":
    raise SystemExit(main())
