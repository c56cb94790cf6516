"""Fine-tune on few labels: the keys of `clozeline finetune` that benchmarks share."""

import json
from pathlib import Path
from typing import Final

from clozeline.configuration.config import config_file, read_composed
from clozeline.extensions.tasks.readers import Rejected, TaskReader
from clozeline.extensions.tasks.registries import TASK_READERS
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.recipe import Recipe

_CHANGES: Final = {"sst2": ["model.heads.classification.pool=mean"]}
_BATCH: Final = 16
_EPOCHS: Final = 4


def tuning_words(word: str, labels: int) -> tuple[str, list[str]]:
    """Return the name of a task, and the keys of four epochs on about so many of its rows.

    `word` is TASK=FILE[,TEST]; without a test file, 30 % of the rows are the test. No two splits
    share a document.
    """
    task, _, names = word.partition("=")
    train, *tests = (Path(name).resolve() for name in names.split(","))
    recipe = read_composed(Recipe, config_file(f"recipe:tasks/{task}", "pipeline.yaml"))
    reader: TaskReader = TASK_READERS.resolve(recipe["tasks"]["reader"]).build(InputLimits())
    rows = sum(not isinstance(item, Rejected) for item in reader.read(reader.open(train)))
    shares = {} if tests else {"dev": 0.3}
    rest = 1 - sum(shares.values()) - labels / max(1, rows)
    shares |= {"rest": rest} if rest > 0 else {}
    steps = labels * _EPOCHS // _BATCH
    return task, [
        f"task={task}",
        f"train={train}",
        *(f"dev={test}" for test in tests),
        f"tasks.split_off={json.dumps(shares)}",
        "optimizer.learning_rate=1e-3",
        f"data.global_batch={_BATCH}",
        f"data.micro_batch={_BATCH}",
        f"steps={steps}",
        f"schedule.warmup={steps // 10}",
        f"evaluate.every={steps}",
        f"checkpoint.every={steps}",
        "zero.stage=0",
        "log.tensorboard=false",
        *_CHANGES.get(task, []),
    ]
