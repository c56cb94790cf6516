"""Models as transformers stores them: config.json and weights, which may be integers of torchao."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from clozeline.extensions.published.conversion.published_texts import CONFIG, store_published
from clozeline.extensions.published.conversion.transformers_folder import read_transformers_folder
from clozeline.extensions.published.conversion.type_selection import find_task_head
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.checkpoints.sources import ModelSource, NewModel
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.model_config import ModelConfig


class TransformersFolderSource(ModelSource):
    """Folders of transformers."""

    expected = "config.json and weights, as transformers writes them"

    def holds(self, folder: Path) -> bool:
        return (folder / CONFIG).is_file()

    def read(self, folder: Path, *, strict: bool, quantized: bool) -> Checkpoint:
        return read_transformers_folder(folder, strict=strict, quantized=quantized)

    def keep_origin(self, source: Path, run: Path) -> None:
        store_published(source, run)

    def find_head(self, config: ModelConfig, token_ids: Mapping[str, object]) -> HeadOptions | None:
        return find_task_head(config, token_ids)

    def describe_export(self, model: NewModel) -> list[str]:
        # it imports what reads runs
        from clozeline.extensions.published.export_plan import plan_of_new_model

        return plan_of_new_model(model).lines()

    def prove_export(self, run: Path, output: Path, texts: Sequence[str]) -> list[str]:
        from clozeline.extensions.published.shown_export import export_and_compare

        return export_and_compare(run, output, texts)
