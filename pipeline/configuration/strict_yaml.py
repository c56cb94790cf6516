"""YAML without the traps of YAML 1.1: `3e-4` is a number, `no` and `on` are words, a key given twice is an error."""

from __future__ import annotations

import re
from typing import Any

import yaml

__all__ = ["parse_yaml"]


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML where only `true` and `false` are booleans, `3e-4` is a float and keys are unique."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so by PyYAML)
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":bool", ":float", ":timestamp"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf|\.nan)$"),
    list("-+0123456789."),
)


def parse_yaml(text: str) -> Any:
    """Return the plain data of a YAML text.

    Raises:
        yaml.YAMLError: it is not YAML, or gives a key twice.
    """
    return yaml.load(text, Loader=_StrictLoader)
