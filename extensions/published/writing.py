"""Write an export: a plan and the weights become a folder of transformers.

It is complete or not there at all.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clozeline.extensions.published.conversion.export import Export
from clozeline.extensions.published.export_plan import CARD, ExportPlan, export_part
from clozeline.extensions.published.model_card import model_card
from clozeline.extensions.published.sentence_embeddings import write_modules
from clozeline.extensions.published.torchao_format import write_torchao
from clozeline.files import publish_json, publish_text
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.pipeline.tokenize.published.exporting import export_tokenizer
from clozeline.pipeline.tokenize.published.folders import GENERATION, MODEL
from clozeline.tools.model_folder import write_tensors
from clozeline.train.checkpoint.trained_model import TrainedModel

_SHOWN_CHARACTERS: Final = 80
"""Characters of a text that a message shows."""


@dataclass(frozen=True)
class Written:
    """A folder that was written, and what there is to say of it."""

    export: Export
    parameters: int
    notes: tuple[str, ...]


def write_model(
    folder: Path,
    title: str,
    plan: ExportPlan,
    part: Checkpoint,
    trained: TrainedModel,
    *,
    part_name: str = "",
    license_id: str = "unknown",
    languages: Sequence[str] = (),
) -> Written:
    """Write the folder of a planned model; config.json, which every loader needs, is last.

    Args:
        folder: created if missing.
        title: of the model card.
        plan: of the export.
        part: the model with its weights, see `parts_of`.
        trained: the run or model that is exported.
        part_name: of one of two models in a run.
        license_id: for the card.
        languages: for the card; default: the languages of the training set.

    Raises:
        ConfigurationError: no class holds the model.
        WeightsError: its head is missing.
    """
    request = plan.request
    export, lacks = export_part(part_name, part, request)
    parameters = sum(tensor.numel() for tensor in export.tensors.values())
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _write_tokenizer(folder, plan, export)

    if request.quantization is None:
        write_tensors(folder / "model.safetensors", export.tensors)
    else:
        export = write_torchao(folder, export, part, request.quantization)

    if plan.pooling:
        write_modules(folder, plan.pooling, trained.checkpoint, plan.texts.max_length)
    _write_generation_defaults(folder, part.published, export)
    card = model_card(
        title,
        export,
        parameters,
        trained,
        license_id=license_id,
        languages=tuple(languages) or (trained.recorded[0].languages if trained.recorded else ()),
        has_words=export.loader.endswith("ForTokenClassification") and not plan.pooling,
    )

    publish_text(folder / CARD, card)
    changed = _find_changed_keys(part.published, export)
    if changed:
        publish_json(folder / MODEL, export.config)
    else:
        publish_text(folder / MODEL, part.published[MODEL])

    but = f", but for {', '.join(changed)}" if changed else ""
    configs = f"config.json: as published{but}" if part.published else ""
    return Written(
        export, parameters, tuple(note for note in (lacks, *plan.notes, configs, tokenizer) if note)
    )


def _write_tokenizer(folder: Path, plan: ExportPlan, export: Export) -> str:
    """Write the tokenizer, if there is one; return the lines about its comparison."""
    if plan.tokenizer is None:
        return "without a tokenizer: none was found"
    report = export_tokenizer(plan.tokenizer, folder, plan.texts, model=export.config)
    first = f", such as {report.differing[0][:_SHOWN_CHARACTERS]!r}" if report.differing else ""
    compared = f"{report.texts} texts compared with split_special_tokens=True"
    lines = [f"tokenizer: {compared}, {len(report.differing) or 'none'} with other ids{first}"]
    if report.published:
        lines.append(f"as published: {', '.join(report.published)}")
    if report.edited:
        lines.append(f"as published, but for {', '.join(report.edited)}: tokenizer_config.json")
    if report.changed:
        lines.append(
            f"written anew from {', '.join(report.changed)}: tokenizer.json, tokenizer_config.json"
        )

    return "\n  ".join(lines)


def _write_generation_defaults(folder: Path, published: Mapping[str, str], export: Export) -> None:
    # a published tokenizer brings its publisher's
    if not export.generation or (folder / GENERATION).exists():
        return
    if GENERATION in published:
        publish_text(folder / GENERATION, published[GENERATION])
    elif not published:  # else the class takes them from config.json, as it did
        publish_json(folder / GENERATION, export.generation)


def _find_changed_keys(texts: Mapping[str, str], export: Export) -> list[str]:
    """Return the keys of config.json that differ from the published one.

    Without it, all of them.
    """
    published = json.loads(texts.get(MODEL, "{}"))
    absent = object()
    keys = published.keys() | export.config.keys()
    return sorted(
        key for key in keys if published.get(key, absent) != export.config.get(key, absent)
    )
