"""The registry of curation: readers of evaluation items."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from clozeline.registry import Component, Registry

if TYPE_CHECKING:  # help lists algorithms without their interfaces
    from clozeline.extensions.curation.item_readers import ItemReader

ITEM_READERS: Registry["ItemReader"] = Registry(
    "clozeline.extensions.curation.item_readers",
    "ItemReader",
    suffix="Reader",
    address="tasks/readers",
)
"""Readers of evaluation items: the task readers of other extensions."""

ItemReaderComponent: TypeAlias = Annotated[Component["ItemReader"], ITEM_READERS]
"""Type of a field that names a reader."""
