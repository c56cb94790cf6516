"""Export the adapter of a run for peft: `clozeline export-adapter RUN DIR`.

The folder holds adapter_model.safetensors, with the head that was trained beside the adapter, and adapter_config.json;
`peft.PeftModel.from_pretrained` loads it beside the model that the run began with, in the form of transformers:
`clozeline export-model BASE FOLDER`. Low-rank updates (lora), prefixes and prompts have this form, where peft's
classes compute the same with them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clozeline.files import publish, publish_json
from clozeline.model.checkpoints import AdapterExport, export_adapter, map_for
from clozeline.tools.command import Arguments, natural, run_tool, some_path
from clozeline.tools.model_folder import refuse_full, write_tensors
from clozeline.tools.models.export.exportable import Adapted, open_adapted, open_exportable

_OF_A_CLASS: Final = frozenset({"architectures", "dtype", "vocab_size"})
_CARD: Final = """---
library_name: peft
---

# {title}

An adapter of kind {kind}, {parameters:,} parameters, exported by Clozeline. It belongs beside one model alone, {base}.

```python
from peft import PeftModel
from transformers import {loader}

base = {loader}.from_pretrained("path/to/the/base"{keys})
model = PeftModel.from_pretrained(base, "path/to/this/folder").eval()
```
"""


def _export(options: argparse.Namespace) -> int:
    refuse_full(options.output)
    found = open_adapted(options.run, options.step)
    base = open_exportable(found.source)
    config, ids = base.checkpoint.config, base.checkpoint.token_ids
    key_map = map_for(config, ids, options.type or base.checkpoint.model_type)
    export = export_adapter(found.beside, found.adapter, found.trained, model_type=key_map.model_type)
    options.output.mkdir(parents=True, exist_ok=True)
    write_tensors(options.output / "adapter_model.safetensors", export.tensors)
    keys = _differing(export.headed, key_map.write_config(config, base.checkpoint.vocab_size, ids))
    with publish(options.output / "README.md") as temporary:
        temporary.write_text(_card(options.output.name, found, export, keys), encoding="utf-8")
    named = {**export.config, "base_model_name_or_path": options.base}
    publish_json(options.output / "adapter_config.json", named)
    print(f"{options.output}: {export.config['peft_type']}, {_count(export):,} parameters, of step {found.step}")
    for module in export.config.get("modules_to_save", ()):
        print(f"  with the trained head {module}")
    if (found.source / "config.json").is_file():
        print(f"  beside {found.source}, loaded by {export.loader}")
    else:
        print(f"  beside: clozeline export-model {found.source} FOLDER --type {key_map.model_type}")
    return 0


def _differing(headed: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of config.json that the class with the run's head has, and the base alone has not."""
    return {
        key: value
        for key, value in headed.items()
        if key not in _OF_A_CLASS and not key.endswith("_token_id") and base.get(key) != value
    }


def _card(title: str, found: Adapted, export: AdapterExport, keys: Mapping[str, Any]) -> str:
    given = "".join(f", {key}={_python(key, value)}" for key, value in sorted(keys.items()))
    return _CARD.format(
        title=" ".join(title.split()),
        kind=export.config["peft_type"],
        parameters=_count(export),
        base=found.source.name,
        loader=export.loader,
        keys=given,
    )


def _python(key: str, value: Any) -> str:
    """Return a value of config.json as Python has it; names of labels by number."""
    return repr({int(number): name for number, name in value.items()} if key == "id2label" else value)


def _count(export: AdapterExport) -> int:
    return sum(tensor.numel() for tensor in export.tensors.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="training run with an adapter")
    parser.add_argument("output", type=some_path, metavar="DIR", help="new folder")
    parser.add_argument(
        "--base", default="", metavar="NAME", help="folder or name of the base, for adapter_config.json"
    )
    parser.add_argument("--type", metavar="TYPE", help="model type of transformers (default: that of the base)")
    parser.add_argument("--step", type=natural, metavar="N", help="the checkpoint of step N (the newest whole one)")
    return run_tool(parser, arguments, _export)


if __name__ == "__main__":
    raise SystemExit(main())
