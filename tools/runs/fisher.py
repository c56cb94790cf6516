"""Estimate how much each weight of a run matters.

    clozeline fisher mine/run output=mine/fisher [rows=256] [data=SHARDS] [add=FILE]

Writes the weights and the diagonal of the Fisher information, F = E_x E_y (d log p(y|x) / dw)²
(arXiv 1612.00796, section 2), for the regularizer `ewc` of a later training. Labels y are sampled
from the model; `empirical=true` uses the labels of the data, which is a different quantity (arXiv
1905.12558). Gradients are squared per example: the square of a batch's mean gradient is smaller by
about the batch size.
"""

import json
import sys
from collections.abc import Sequence

from clozeline.columns import SAMPLE_WORDS
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import (
    InputFile,
    Natural,
    OutputPath,
    Positive,
    UserPath,
    run_as_script,
    run_tool,
)
from clozeline.tools.options import CheckpointChoice, RunArgument
from clozeline.tools.runs.data.run_sets import SetPaths, locate_sets, open_first_set
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.token_ids import refuse_other_ids


@config_class
class FisherOptions(CheckpointChoice, RunArgument):
    """Examples to use, and the file to write."""

    output: OutputPath
    """file to write"""
    data: UserPath | SetPaths = SetPaths()
    """shard set of examples; default: the run's first training set; if it was moved,
    data.shards=MANIFEST says where"""
    rows: Positive = 256
    """number of examples drawn from the set; fewer than 200 are noisy"""
    seed: Natural = 0
    """seed of the drawn rows and labels"""
    empirical: bool = False
    """use the labels of the data"""
    add: InputFile | None = None
    """file of this command whose information is added, such as that of an earlier task"""


def _estimate(chosen: FisherOptions) -> None:
    from safetensors.torch import load_file

    run = chosen.run
    trained = TrainedModel.open(run, chosen.step)
    from clozeline.tools.model_folder import write_tensors
    from clozeline.tools.runs.inference.fisher_information import (
        diagonal_fisher,
        draw_rows,
        require_drawable_labels,
    )

    model = trained.model
    if SAMPLE_WORDS.name in model.reads:
        raise ConfigurationError(
            f"{run}: a generator replaces its tokens in each step, so a row has no fixed labels: "
            "use a run of another objective"
        )

    if not chosen.empirical:
        require_drawable_labels(model.heads)
    if isinstance(chosen.data, SetPaths):
        shards = open_first_set(run, locate_sets(run, trained.require_config().data, chosen.data))
    else:
        shards = open_shards(chosen.data)

    refuse_other_ids(trained.ids, shards, "data")
    trained.refuse_other_meanings(shards)
    examples = draw_rows(shards, chosen.rows, chosen.seed)
    fisher = diagonal_fisher(model, examples, chosen.seed, empirical=chosen.empirical)
    weights = dict(model.named_parameters())
    tensors = {f"fisher/{name}": values for name, values in fisher.items()}
    tensors |= {f"weight/{name}": weights[name].detach() for name in fisher}
    if chosen.add is not None:
        earlier = load_file(chosen.add)
        for name, values in earlier.items():
            if name not in tensors:
                tensors[name] = values
            elif name.startswith("fisher/") and values.shape == tensors[name].shape:
                tensors[name] = tensors[name] + values
    metadata = {
        "step": trained.step,
        "rows": min(chosen.rows, len(shards)),
        "empirical": chosen.empirical,
    }

    write_tensors(chosen.output, tensors, {"fisher": json.dumps(metadata)})
    mean = sum(float(values.sum()) for values in fisher.values()) / sum(
        values.numel() for values in fisher.values()
    )
    sys.stdout.write(
        f"{chosen.output}: {metadata['rows']} rows at step {trained.step}, mean {mean:.3g}\n"
    )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, FisherOptions, _estimate)


if __name__ == "__main__":
    run_as_script(main)
