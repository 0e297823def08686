"""YAML with plain values alone: dates are texts, and nothing stands for something else, which could grow without end."""

from __future__ import annotations

from typing import Any, ClassVar

import yaml

__all__ = ["parse_yaml"]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        letter: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
        for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias (*), and every value is written out")
        return super().compose_node(parent, index)


def parse_yaml(text: str) -> Any:
    """The values of a text.

    Raises:
        ValueError: It is no YAML, or lists lie too deep in each other, or a number has thousands of digits.
    """
    try:
        return yaml.load(text, _Loader)  # a `SafeLoader`: nothing is executed
    except RecursionError:
        raise ValueError("its lists lie too deep in each other") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
