"""Import and export of published checkpoints.

A file has the model types of config.json that belong to one lineage.
"""

from clozeline.model.checkpoints._conversion.adapter_export import AdapterExport, export_adapter
from clozeline.model.checkpoints._conversion.adapter_import import PEFT_CONFIG, import_adapter
from clozeline.model.checkpoints._conversion.checkpoint import (
    MODEL,
    UNREAD,
    WEIGHTS,
    Checkpoint,
    build_checkpoint,
    fill_absent_heads,
    read_checkpoint,
)
from clozeline.model.checkpoints._conversion.class_fit import fit_to_class
from clozeline.model.checkpoints._conversion.config_keys import computation_keys, differences
from clozeline.model.checkpoints._conversion.export import (
    Export,
    continue_published,
    export_checkpoint,
    model_without_weights,
    select_heads,
    split_models,
)
from clozeline.model.checkpoints._conversion.import_record import (
    IMPORT_RECORD,
    IMPORT_RECORD_FORMAT,
    find_imported_tokenizer,
    find_published,
    store_published,
)
from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.checkpoints._conversion.tables import Slice
from clozeline.model.checkpoints._conversion.tensor_files import divide_tensors, weight_files
from clozeline.model.checkpoints._conversion.tensor_layouts import parameter_shapes
from clozeline.model.checkpoints._conversion.type_selection import (
    build_heads_of_class,
    find_map,
    load_map,
)

__all__ = [
    "IMPORT_RECORD",
    "IMPORT_RECORD_FORMAT",
    "MODEL",
    "PEFT_CONFIG",
    "UNREAD",
    "WEIGHTS",
    "AdapterExport",
    "Checkpoint",
    "Export",
    "KeyMap",
    "Slice",
    "build_checkpoint",
    "build_heads_of_class",
    "computation_keys",
    "continue_published",
    "differences",
    "divide_tensors",
    "export_adapter",
    "export_checkpoint",
    "fill_absent_heads",
    "find_imported_tokenizer",
    "find_map",
    "find_published",
    "fit_to_class",
    "import_adapter",
    "load_map",
    "model_without_weights",
    "parameter_shapes",
    "read_checkpoint",
    "select_heads",
    "split_models",
    "store_published",
    "weight_files",
]
