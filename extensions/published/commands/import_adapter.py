"""Import an adapter of peft: `clozeline import-adapter DIR BASE OUTPUT`.

DIR is a folder that peft saved: adapter_config.json and adapter_model.safetensors with LoRA, (IA)³,
a prefix or a prompt, and the head that was trained with it. BASE is the model that it was trained
on: an imported model, a transformers folder, or a training run. OUTPUT gets a model folder as
`import-model` writes it, with the adapter apart: `export-model` merges it, `export-adapter` writes
it for peft again, and `model.init_from` trains it further.
"""

from collections.abc import Sequence
from typing import Annotated

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.tools.command import ModelPath, OutputPath, run_as_script, run_tool


@config_class
class ImportAdapterOptions:
    """An adapter of peft, its base model, and the folder to write."""

    source: Annotated[ModelPath, Positional(0, "DIR")]
    """folder that peft saved"""
    base: Annotated[ModelPath, Positional(1)]
    """model that the adapter was trained on"""
    output: Annotated[OutputPath, Positional(2)]
    """new folder"""
    type: str | None = None
    """model type of transformers; default: that of the base"""
    no_tokenizer: bool = False
    """import adapter and model alone"""


def _import(options: ImportAdapterOptions) -> None:
    from clozeline.extensions.published.commands.import_model import add_tokenizer
    from clozeline.extensions.published.conversion.adapter_import import import_adapter
    from clozeline.extensions.published.export_plan import exported_form
    from clozeline.extensions.published.imported_folder import write_imported
    from clozeline.model.checkpoints.import_record import IMPORT_RECORD
    from clozeline.pipeline.tokenize.published.importing import import_tokenizer
    from clozeline.tools.model_folder import TOKENIZER
    from clozeline.tools.output_folder import new_folder
    from clozeline.train.checkpoint.trained_model import TrainedModel

    base = TrainedModel.open(options.base, quantized=False)
    checkpoint = import_adapter(options.source, exported_form(base), model_type=options.type)
    notes = [*checkpoint.notes]

    with new_folder(options.output, last=IMPORT_RECORD) as folder:
        if options.no_tokenizer:
            notes.append("without a tokenizer")
        elif base.tokenizer_folder is None:
            notes.append(add_tokenizer(options.base, folder / TOKENIZER, checkpoint.vocab_size))
        else:
            import_tokenizer(base.tokenizer_folder, folder / TOKENIZER)
        write_imported(folder, checkpoint, options.source)

    adapter = checkpoint.config.adapter

    assert adapter is not None

    count = sum(
        tensor.numel()
        for name, tensor in checkpoint.tensors.items()
        if name.startswith("adapters.")
    )

    print(f"{options.output}: {adapter.name}, {count:,} parameters, on {options.base}")
    if checkpoint.trained:
        print(f"  with the trained head {', '.join(checkpoint.config.heads)}")
    print(*(f"  {note}" for note in notes), sep="\n")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ImportAdapterOptions, _import)


if __name__ == "__main__":
    run_as_script(main)
