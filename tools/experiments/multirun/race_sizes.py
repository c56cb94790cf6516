"""The second table of a race: the smallest file of each entry that keeps the held-out loss within the target's slack.

Each trained run is stored as it is, and with its weights as integers (`clozeline compress`); a form counts if every
seed stays at or below the target of the race plus `SLACK`. This is the race by bytes that a limit on the size of a
model asks for, for masked models in nats per label.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.files import publish_json, read_json
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.experiments.multirun.race_rules import HEAD

SLACK: Final = 0.05
"""Nats above the target that a stored form may lose."""
FORMS: Final[Mapping[str, Sequence[str]]] = {
    "as trained": [],
    "int8": ["method=int8"],
    "int8, tables too": ["method=int8", "embeddings=true"],
    "int4, tables too": ["method=int4", "embeddings=true"],
}
"""Stored forms of a run, and the settings of `clozeline compress` that write them."""


@dataclass(frozen=True)
class StoredForm:
    """Bytes of a stored run, and what it predicts."""

    stored: int
    """bytes of its weights"""
    loss: float
    """held-out loss, in nats per label"""


def heldout_loss(run: Path, shards: ShardSet) -> float:
    """Return the loss of a run over all rows of a set, in nats per label."""
    from clozeline.tools.models.compression.measurements import build_opened
    from clozeline.tools.models.export.exportable import open_exportable
    from clozeline.tools.runs.evaluation.heldout_score import heldout_score

    model = build_opened(open_exportable(run))
    return heldout_score(model, shards)[1] / model.config.head_weights[HEAD]


def store_forms(run: Path, shards: ShardSet, output: Path) -> dict[str, StoredForm]:
    """Write each form of a run below a folder, unless it is there, and return what they take and lose.

    A form that a model cannot have, such as int4 in groups that do not divide a width, is left out with its reason.
    """
    from clozeline.tools.models.compress import compress
    from clozeline.tools.models.compression.measurements import stored_bytes

    forms = {}
    for name, words in FORMS.items():
        folder = output / f"{run.name}-{name.replace(', ', '-').replace(' ', '-')}"
        result = folder.with_suffix(".json")
        if (known := read_json(result)) is None:
            try:
                if words and not folder.exists():
                    compress(run, [*words, "repeats=1", "length=16", f"output={folder}"])
            except ConfigurationError as error:
                sys.stdout.write(f"{run.name} has no form {name}: {error}\n")
                continue
            source = folder if words else run
            known = asdict(StoredForm(stored_bytes(source, ()), heldout_loss(source, shards)))
            publish_json(result, known)
        forms[name] = StoredForm(**known)
    return forms


def size_standings(target: float, forms: Mapping[str, Sequence[Mapping[str, StoredForm]]]) -> Iterator[str]:
    """Yield a line per entry and form with means over its seeds, smallest first; `forms` gives the form of each run."""
    limit = target + SLACK
    yield f"smallest file at or below {limit:.2f} nats, the target plus {SLACK:g}:"
    yield f"{'entry':<16}{'stored':<20}{'MB':>8}{'loss':>9}{'reached':>10}"
    lines = []
    for entry, of_seeds in forms.items():
        for name in of_seeds[0]:
            seeds = [of_seed[name] for of_seed in of_seeds]
            reached = sum(form.loss <= limit for form in seeds)
            size, loss = fmean(form.stored for form in seeds), fmean(form.loss for form in seeds)
            line = f"{entry:<16}{name:<20}{size / 1e6:>8.2f}{loss:>9.4f}{f'{reached} of {len(seeds)}':>10}"
            lines.append((reached < len(seeds), size, line))
    yield from (line for *_, line in sorted(lines))
