"""Export the adapter of a run for peft: `clozeline export-adapter mine/run adapter`.

DIR gets adapter_config.json and adapter_model.safetensors with the adapter and the head that was
trained with the adapter. `peft.PeftModel.from_pretrained` loads DIR on top of the base model, which
must be in transformers format: `clozeline export-model BASE FOLDER` writes the base model so. An
adapter (low-rank updates, prefixes or prompts) can be exported if peft computes the same outputs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.published.conversion.adapter_export import export_adapter
from clozeline.extensions.published.conversion.class_fit import fit_to_class
from clozeline.extensions.published.export_plan import base_weights, exported_form, with_row_length
from clozeline.files import publish_json, publish_text
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.tools.command import ModelPath, OutputPath, run_as_script, run_tool
from clozeline.tools.model_folder import write_tensors
from clozeline.tools.options import CheckpointChoice
from clozeline.tools.output_folder import new_folder
from clozeline.train.checkpoint.trained_model import TrainedModel

_KEYS_SET_BY_CLASS: Final = frozenset({"architectures", "dtype", "vocab_size"})
"""Keys of config.json that the transformers class sets, so that a model card need not pass them."""
_CARD: Final = """---
library_name: peft
---

# {title}

An adapter of kind {kind}, {parameters:,} parameters, exported by Clozeline. It works only with one
model, {base}.

```python
from peft import PeftModel
from transformers import {loader}

base = {loader}.from_pretrained("{path}"{keys})
model = PeftModel.from_pretrained(base, "path/to/this/folder").eval()
```
"""


@config_class
class ExportAdapterOptions(CheckpointChoice):
    """A run with an adapter, and its export."""

    run: Annotated[ModelPath, Positional(0)]
    """run that trained an adapter"""
    output: Annotated[OutputPath, Positional(1, "DIR")]
    """new folder"""
    base: str = ""
    """folder or name of the base model, written to adapter_config.json"""
    type: str | None = None
    """model type of transformers; default: the model type of the base model"""


def _export(options: ExportAdapterOptions) -> None:
    run = TrainedModel.open(options.run, options.step, quantized=False)
    if run.config is None or run.config.model.adapter is None:
        raise ConfigurationError(
            f"{options.run}: not a run that trained an adapter: export the model with clozeline "
            "export-model"
        )
    assert run.config.model.init_from is not None  # an adapter changes a model
    checkpoint = with_row_length(run.checkpoint, run.recorded[0].max_length)

    # the base with the heads of the run, and with those that it had before
    model = build_checkpoint(checkpoint)
    adapter = model.adapters.find(run.config.model.adapter.name)
    base = replace(
        checkpoint,
        config=replace(checkpoint.config, adapter=None),
        tensors=base_weights(model),
        trained=(),
    )
    source = run.config.model.init_from.expanduser()
    original = exported_form(TrainedModel.open(source, quantized=False))
    original, key_map = fit_to_class(original, options.type or original.model_type, body_alone=True)
    config = original.config
    ids = original.token_ids
    export = export_adapter(base, adapter, checkpoint.trained, model_type=key_map.model_type)
    # The transformers class with the run's head needs further keys: those that config.json of the
    # base model lacks, or has with another value.
    base_keys = key_map.configuration.write(config, original.vocab_size, ids)
    keys = {
        key: {int(number): name for number, name in value.items()} if key == "id2label" else value
        for key, value in sorted(export.class_config.items())
        if key not in _KEYS_SET_BY_CLASS
        and not key.endswith("_token_id")
        and base_keys.get(key) != value
    }

    kind = export.config["peft_type"]
    parameters = sum(tensor.numel() for tensor in export.tensors.values())
    card = _CARD.format(
        title=" ".join(options.output.name.split()),
        kind=kind,
        parameters=parameters,
        base=options.base or source.name,
        path=options.base or "path/to/the/base",
        loader=export.loader,
        keys="".join(f", {key}={value!r}" for key, value in keys.items()),
    )

    config_keys = {**export.config, "base_model_name_or_path": options.base}
    with new_folder(options.output) as folder:
        write_tensors(folder / "adapter_model.safetensors", export.tensors)
        publish_text(folder / "README.md", card)
        publish_json(folder / "adapter_config.json", config_keys)

    print(f"{options.output}: {kind}, {parameters:,} parameters, step {run.step}")
    for module in export.config.get("modules_to_save", ()):
        print(f"  with the trained head {module}")
    if (source / "config.json").is_file():
        print(f"  base model: {source}, loaded by {export.loader}")
    else:
        print(
            f"  base model: write it by `clozeline export-model {source} FOLDER "
            f"type={key_map.model_type}`"
        )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ExportAdapterOptions, _export)


if __name__ == "__main__":
    run_as_script(main)
