"""Verify an export.

transformers loads the exported folder and computes the scores again; its tokenizer must add the
special tokens of the training rows.

transformers is imported offline; what transformers and its own libraries print is suppressed.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from itertools import groupby, islice
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from torch import Tensor

from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.extensions.published.conversion.export import Export
from clozeline.model.checkpoints.checkpoint import Checkpoint, build_checkpoint
from clozeline.model.scoring.batches import batch_tensors
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.recorded_sets import read_first_block
from clozeline.train.data.sets.text_form import reads_prompts
from clozeline.train.data.stream.online_corruption import corruption_of

_COMPARED_ROWS: Final = 30
"""Number of training rows whose special tokens are compared."""
_SHOWN_CHARACTERS: Final = 120
"""Length to which a message shortens a row."""
_FIRST_ROLES: Final = ("cls", "bos")
"""Roles of the special tokens that may begin a row."""
_LAST_ROLES: Final = ("sep", "eos")
"""Roles of the special tokens that may end a row."""
_COMPARED_IDS: Final = 6
"""Ordinary tokens of the row on which scores are compared."""
_MAX_RELATIVE_DIFFERENCE: Final = 1e-2
"""Largest difference of scores, as a share of the largest score; a transformers class adds numbers
in another order."""
_ADVICE: Final = "nothing was written: choose another type=, or keep the model in our format"

Logits: TypeAlias = Callable[[Tensor], list[Tensor]]
"""Return the scores of each head, in the order of the heads' names and in the shapes that
transformers classes return."""


def import_transformers(purpose: str) -> ModuleType:
    """Return transformers without progress bars.

    Warnings about kernels for other machines are not printed either.

    Raises:
        ConfigurationError: transformers is not installed; `purpose` begins the
            message, such as "--theirs".
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported

    try:
        import transformers
    except ImportError as error:
        raise ConfigurationError(
            f"{purpose} needs transformers: pip install transformers"
        ) from error

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    # transformers loads torchao if it is installed
    for library in (
        "torchao",
        "torch.utils._pytree",
    ):
        logging.getLogger(library).setLevel(logging.ERROR)

    return transformers


@contextmanager
def refusals_of(folder: Path) -> Iterator[None]:
    """Raise a ConfigurationError where transformers cannot run the model of a folder.

    The message quotes the first sentence of the error that transformers raised.
    """
    try:
        yield
    except (ClozelineError, MemoryError):
        raise
    except Exception as error:  # transformers and the libraries below it raise all kinds
        reason = re.split(r"(?<=[.!?])\s", " ".join(str(error).split()), maxsplit=1)[0]
        raise ConfigurationError(
            f"{folder}: transformers refuses it: {reason} ({type(error).__name__})"
        ) from error


def logits_of(checkpoint: Checkpoint) -> Logits:
    """Return a function that computes a model's scores with our code."""
    model = build_checkpoint(checkpoint)

    def logits(ids: Tensor) -> list[Tensor]:
        tensors = batch_tensors(ids.tolist(), ids.device)
        if checkpoint.config.architecture == "encoder_decoder":
            positions = tensors["position_ids"]
            tensors |= {"decoder_input_ids": ids, "decoder_position_ids": positions}
        return [scores for _, scores in sorted(model.logits(tensors).items())]

    return logits


def load_and_compare(folder: Path, name: Path, export: Export) -> str:
    """Return how an export loads, and how far its scores are from ours, for people.

    If transformers is not installed, the returned words say that loading was not tried.

    Args:
        folder: a complete export.
        name: name of the folder in messages.
        export: the model that was written to the folder.

    Raises:
        ConfigurationError: the transformers class refuses the folder, ignores or lacks some of its
            tensors, fails at its first call, or computes other scores.
    """
    loader = export.loader

    try:
        transformers = import_transformers("export-model")
    except ConfigurationError:
        return f"for {loader}, not tried: transformers is not installed"

    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()

    try:
        # torchao's import prints lines about kernels of other machines
        with redirect_stderr(StringIO()):
            model, report = getattr(transformers, loader).from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                dtype=torch.float32,  # some classes cannot compute in half precision
                output_loading_info=True,
                **export.loader_options,
            )
        if differing := {key: sorted(map(str, names)) for key, names in report.items() if names}:
            raise ValueError(f"tensors differ: {differing}")
        ids = _ids_for(export)
        rows = {"input_ids": ids[None] if loader.endswith("ForMultipleChoice") else ids}
        reads_two = model.config.is_encoder_decoder and "Encoder" not in loader
        with torch.no_grad():
            scores = model.eval()(**rows, **({"decoder_input_ids": ids} if reads_two else {}))
    except Exception as error:  # whatever the transformers class raises, the export is invalid
        why = " ".join(str(error).split()) or type(error).__name__
        raise ConfigurationError(
            f"{name}: {loader} of transformers cannot run this model: {why}; {_ADVICE}"
        ) from error
    finally:
        transformers.utils.logging.set_verbosity(level)

    theirs = [value for key, value in scores.items() if key.endswith("logits")]
    apart = _compare_scores(export, theirs, ids)
    if apart is None:
        return f"loaded by {loader}"
    if not apart <= _MAX_RELATIVE_DIFFERENCE:
        raise ConfigurationError(
            f"{name}: {loader} of transformers computes other scores than this model, {apart:.2g} "
            f"of the largest one apart; {_ADVICE}"
        )

    return f"loaded by {loader}, scores {apart:.0e} apart"


def _ids_for(export: Export) -> Tensor:
    """Return a row of ordinary tokens.

    The row of an encoder-decoder ends with the end token, which classifiers read.
    """
    special = {
        token
        for value in export.model.token_ids.values()
        for token in np.ravel(value)
        if token is not None
    }

    ordinary = (token for token in range(export.model.vocab_size) if token not in special)
    row = list(islice(ordinary, _COMPARED_IDS)) or [0]
    end = export.config.get("eos_token_id")
    if export.model.config.architecture == "encoder_decoder" and end is not None:
        row.append(int(np.ravel(end)[0]))
    return torch.tensor([row])


def _compare_scores(export: Export, theirs: list[Tensor], ids: Tensor) -> float | None:
    """Return the largest difference between our and their scores, as a share of our largest score.

    None where scores are not compared: exports without a head, with integer weights, or for
    multiple choice (each choice needs its own row) are only loaded.
    """
    choices = export.loader.endswith("ForMultipleChoice")
    if not theirs or choices or "quantization_config" in export.config:
        return None
    with torch.no_grad():
        ours = logits_of(export.model)(ids)
    if len(theirs) == 2 * len(ours):  # the first and the last position of an answer
        theirs = [torch.stack(theirs, dim=-1)]
    pairs = [
        (tensor[..., : other.shape[-1]].float(), other)
        for tensor, other in zip(ours, theirs, strict=True)
    ]
    largest = max(float(other.abs().max()) for _, other in pairs)
    return max(float((tensor.view_as(other) - other).abs().max()) for tensor, other in pairs) / max(
        largest, 1.0
    )


def compare_training_rows(folder: Path, trained: TrainedModel) -> str:
    """Return a line about the special tokens of training rows, or why they are not compared."""
    if trained.tokenizer_folder is None or trained.config is None:
        return ""
    first_set = trained.recorded[0]
    data = trained.config.data
    entries = data.corrupt or next(iter(data.all_phases.values())).corrupt

    try:
        shards = open_shards(Path(first_set.path))
        rows = read_first_block(shards, skip_damaged=True)
        rows = rows.take(np.arange(min(_COMPARED_ROWS, len(rows))))
        if entries and shards.manifest.kind == "samples":
            rows, _ = corruption_of(entries, shards)(rows, np.zeros(len(rows), np.uint16))
    except ClozelineError as error:  # the set may have been moved
        return f"frame: not compared with training rows: {error}"

    exported = import_transformers("export-model").AutoTokenizer.from_pretrained(
        folder, local_files_only=True
    )
    ids = (row["input_ids"] for row in rows if "input_ids" in row)
    return compare_frames(
        ids, trained.tokenizer, exported, is_prompt=reads_prompts(first_set.objective)
    )


def compare_frames(
    rows: Iterable[Any], tokenizer: Tokenizer, exported: Any, *, is_prompt: bool
) -> str:
    """Return a line about the first rows of ids; empty without rows.

    A row of one or two texts is compared with what `exported`, a tokenizer of transformers, writes
    around them, and a row with other special tokens, such as masks, with what it reads from text
    and pieces. Rows with texts that do not encode to their ids again are compared at both ends. A
    decoder's rows are prompts, of one text without an end (`is_prompt`).
    """
    special = tokenizer.vocabulary.special
    compared = 0
    entire = 0
    differing = list[str]()
    roles = tokenizer.vocabulary.specials
    unknown = roles.get("unk")
    last_ids = {roles[role] for role in _LAST_ROLES if role in roles}
    first_ids = {roles[role] for role in _FIRST_ROLES if role in roles}
    around = first_ids | last_ids
    first_ids -= last_ids  # a packed row may begin with a separator
    framed_letter = exported("a").input_ids
    letter = [position for position, token in enumerate(framed_letter) if token not in around] or [
        0
    ]
    head = framed_letter[: letter[0]]
    tail = framed_letter[letter[-1] + 1 :]

    for ids in islice(rows, _COMPARED_ROWS):
        row = [int(token) for token in ids]
        while is_prompt and row and special[row[-1]]:
            row.pop()
        if not row:
            continue
        compared += 1
        texts = [[*part] for marks, part in groupby(row, special.__getitem__) if not marks]
        spelled = [tokenizer.decode(text) for text in texts]
        begins = row[: len(head)] == head if head else row[0] not in first_ids
        is_same = begins and (row[-len(tail) :] == tail if tail else row[-1] not in last_ids)
        framed = [*head, *tail]

        written: tuple[str, ...] = ()
        if unknown not in row and texts == [
            encoding.ids.tolist() for encoding in tokenizer.encode(spelled)
        ]:
            if 1 <= len(texts) <= 2 - is_prompt and around.issuperset(
                token for token in row if special[token]
            ):
                written = (*spelled,)
            elif is_same and not any(text[-1:].isspace() for text in spelled):
                # special tokens between texts are written after a blank, as people do
                parts = groupby(row[len(head) : len(row) - len(tail)], special.__getitem__)
                pieces = (
                    "".join(f" {tokenizer.piece(token)}" for token in part)
                    if marks
                    else tokenizer.decode([*part])
                    for marks, part in parts
                )
                written = ("".join(pieces),)
        if written:
            entire += 1
            framed = exported(*written).input_ids
            is_same = framed == row

        if not is_same:
            ours, theirs = (
                " ".join(exported.convert_ids_to_tokens(each)) for each in (row, framed)
            )
            limit = _SHOWN_CHARACTERS
            differing.append(f"{ours[:limit]} in training, {theirs[:limit] or 'nothing'} there")

    if not compared:
        return ""
    if differing:
        count = f"{len(differing)} of {compared}"
        return (
            f"frame: the exported tokenizer writes {count} training rows otherwise: {differing[0]}"
        )

    how = (
        f"{entire} of them complete, the others at both ends"
        if entire < compared
        else "all of them complete"
    )

    return (
        f"frame: {compared} training rows compared, {how}, each as the exported tokenizer writes it"
    )
