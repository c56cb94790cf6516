"""The page of published trainings, from the tables of their sources and from our recipes."""

import re
from pathlib import Path
from typing import Any, Final

from clozeline import HOME
from tests.published.tables import (
    MISSING,
    NAMES,
    TRAININGS,
    counts_of,
    facts_of,
    rows_of,
    training_of,
)

_COMMAND: Final = re.compile(r"`(?:clozeline|deepspeed) [^`]+`")
_HEAD: Final = """# Published trainings

```sh
clozeline pipeline --config recipe:nanogpt input=FILES output=data/nanogpt
deepspeed train/main.py --config recipe:nanogpt data.folder=data/nanogpt/corrupt output=runs/nanogpt
```

Each of these recipes has the values of a training that others published. They were read on
2026-12-01 from the source's own code, at a commit that is named below, before the recipe was
written. A test asks the built objects for the learning rate at five steps, the parameters that
decay, the first weights, the masks, the rows and the number of parameters.

- The recipe without words is the published size, for many GPUs: `--dry-run` prints what it costs.
- `variant=tiny` is the same training with two or three layers, for two cores.
- A recipe trains its own tokenizer on your texts, of the kind and the size of the source's.
- *Values* says how many of the values that the source sets are said. The list of a section has the
  others, and what is so instead.

"""


def published_page() -> str:
    """Return docs/published-trainings.md."""
    names = sorted(NAMES, key=lambda name: str(facts_of(name)["training"]).lower())
    head = (
        "| training | model | objective | tokens | a step | optimizer | schedule | values |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    lines = "".join(f"| {' | '.join(_cells(name))} |\n" for name in names)
    said, counted = map(sum, zip(*map(counts_of, names), strict=True))
    total = f"Together, {said:,} of {counted:,} values are said ({said / counted:.0%}).\n"
    return "\n".join([_HEAD + head + lines, total, *map(_section, names)])


def _cells(name: str) -> list[str]:
    facts = facts_of(name)
    said, counted = counts_of(name)
    link = f"[{facts['training']}](#{_anchor(facts['training'])})"
    cells = [link, facts.get("model"), facts.get("objective"), facts.get("tokens")]
    cells += _training_cells(name, facts) if name in TRAININGS else [None] * 3
    return [*(str(cell or "–") for cell in cells), f"{said} of {counted}"]


def _training_cells(name: str, facts: dict[str, Any]) -> list[str]:
    config = training_of(name)
    rows = facts["rows"] if isinstance(facts["rows"], list) else [facts["rows"]]
    sizes = [row.get("tokens_per_step") for row in rows]
    step = " to ".join(f"{size / 1e6:.2g} M" for size in sizes if isinstance(size, int))
    options = config.optimizer.options
    optimizer = f"{config.optimizer.name}, {options.learning_rate:g}"
    warmup = config.schedule.options.warmup
    return [
        step,
        f"{optimizer}, decay {options.weight_decay:g}",
        f"{config.schedule.name}, warm-up {warmup:,}",
    ]


def _anchor(title: str) -> str:
    return re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))


def _section(name: str) -> str:
    facts = facts_of(name)
    missing: dict[str, list[str]] = {}
    for row in rows_of(name):
        if not row.is_expressed:
            missing.setdefault(row.ours.removeprefix(MISSING), []).append(row.name)
    lines = [f"- {', '.join(values)}: {reason}" for reason, values in missing.items()]
    files = (HOME / "configs" / "recipes" / name / f"{part}.yaml" for part in ("pipeline", "train"))
    comments = "\n".join(
        line.removeprefix("# ")
        for path in filter(Path.is_file, files)
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("# ")
    )
    commands = (" ".join(found.replace("\\\n", "").split()) for found in _COMMAND.findall(comments))
    parts = [
        f"## {facts['training']}",
        "  \n".join(
            [
                f"{facts['about']}: `{facts['source']}`, commit {str(facts['commit'])[:8]}.",
                *commands,
            ]
        ),
        "\n".join(lines),
    ]
    return "\n\n".join(parts) + "\n"
