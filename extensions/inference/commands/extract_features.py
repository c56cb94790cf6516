"""Extract vectors of texts with a trained model.

    clozeline extract-features mine/run input=texts.txt output=features [layer=...]

Reads a file or folder: the field `text` of tables and lines of JSON, a file of text as one text.
DIR gets `features.arrow`, with a row {uid, position, text, layer, pool, vector} per text, word or
token, in order, and `features.json`. Vectors do not depend on the other texts, except for rounding.
Of an encoder-decoder, the encoder is used.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import plural
from clozeline.extensions.inference.feature_files import (
    FeatureChoice,
    Pool,
    Precision,
    write_features,
)
from clozeline.files import file_hash
from clozeline.pipeline.tables import find_text_files, read_named_texts
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.tools.command import OutputPath, UserPath, run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice, RunArgument
from clozeline.tools.output_folder import new_folder
from clozeline.train.checkpoint.trained_model import TrainedModel


@config_class
class ExtractOptions(CheckpointChoice, RunArgument):
    """Texts to read, and which vectors to write."""

    input: UserPath
    """file or folder of texts"""
    output: OutputPath
    """new folder for features.arrow and features.json"""
    layer: int | str = "last"
    """0 the embeddings, 1 the first layer, ..., -1 the last; last, last4_concat, last4_sum;
    scalar_mix, if a head has learned one; table, the token embeddings without context"""
    pool: Pool = "mean"
    """token, or first_subword of each word: one vector each; cls, mean, max or last over all
    tokens: one per text"""
    normalize: NormalForm = "prose"
    """stored form of the texts, as `clean.normalize` of the training data; none reads them as they
    are"""
    precision: Precision = "f32"
    """number format of the vectors"""
    max_length: Annotated[int, Field(ge=3)] | None = None
    """maximum tokens per text, with special tokens; default: all that the model can read"""


def extract(options: ExtractOptions) -> str:
    """Write the vectors; return a summary line."""
    from clozeline.model.checkpoints.checkpoint import fill_absent_heads

    hashes = {path.name: file_hash(path) for path in find_text_files(options.input)}
    opened = TrainedModel.open(options.run, options.step)
    trained = replace(opened, checkpoint=fill_absent_heads(opened.checkpoint))
    length = trained.row_length(options.max_length, "max_length")
    description = {
        "run": str(options.run.resolve()),
        **trained.provenance,
        "input": hashes,
    }

    chosen = FeatureChoice(str(options.layer), options.pool, options.precision, length)
    objective = trained.objectives[0]
    texts = read_named_texts(options.input, options.normalize)
    with new_folder(options.output) as folder:
        manifest = write_features(folder, trained, objective, texts, chosen, description)

    rows = plural(manifest["rows"], "vector")
    text_count = plural(manifest["texts"], "text")
    return (
        f"{options.output}: {rows} of {manifest['width']:,} numbers from {text_count}, layer "
        f"{options.layer}, pool {options.pool}; {manifest['truncated']:,} cut at {length} tokens, "
        f"{manifest['empty']:,} without a token"
    )


def _extract(options: ExtractOptions) -> None:
    print(extract(options))


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ExtractOptions, _extract)


if __name__ == "__main__":
    run_as_script(main)
