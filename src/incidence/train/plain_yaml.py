"""YAML with plain values alone, on top of PyYAML's safe loader.

Aliases and tags are refused where they stand, before anything is built of them. Dates and times
stay texts.
"""

from __future__ import annotations

from typing import Any, ClassVar

import yaml

from incidence.limits import reason

__all__ = ["parse_yaml"]


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        letter: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias (*), and every value is written out")
        if getattr(self.peek_event(), "tag", None) is not None:
            raise ValueError("it has a tag (!), and values have the type they are written as")
        return super().compose_node(parent, index)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        # YAML 1.1 reads 1:30 as a number to the base of 60
        is_time = kind is yaml.ScalarNode and ":" in value
        return super().resolve(kind, value, (False, True) if is_time else implicit)


def parse_yaml(text: str) -> Any:
    """Return the values of a text.

    Raises:
        ValueError: It is no YAML, has an alias or a tag, nests too deep, or has a number of
            thousands of digits.
    """
    try:
        return yaml.load(text, _PlainLoader)
    except RecursionError:
        raise ValueError("its lists lie too deep in each other") from None
    except ValueError as error:
        raise ValueError(reason(error)) from error
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
