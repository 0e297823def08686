"""YAML with plain values alone: dates and times are texts, and nothing stands for something else, or says of which type it is."""

from __future__ import annotations

from typing import Any, ClassVar

import yaml

from incidence.limits import reason

__all__ = ["parse_yaml"]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        letter: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
        for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias (*), and every value is written out")
        if getattr(self.peek_event(), "tag", None) is not None:
            raise ValueError(
                "it has a tag (!), and values are of the type that they are written as"
            )
        return super().compose_node(parent, index)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        is_time = (
            kind is yaml.ScalarNode and ":" in value
        )  # to the base of 60, as in 1:30, where YAML of old has a number
        return super().resolve(kind, value, (False, True) if is_time else implicit)


def parse_yaml(text: str) -> Any:
    """The values of a text.

    Raises:
        ValueError: It is no YAML, or lists lie too deep in each other, or a number has thousands of digits.
    """
    try:
        return yaml.load(text, _Loader)  # a `SafeLoader`: nothing is executed
    except RecursionError:
        raise ValueError("its lists lie too deep in each other") from None
    except ValueError as error:
        raise ValueError(reason(error)) from error
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
