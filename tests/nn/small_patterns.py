"""All patterns of up to three faces and three letters, each meaning once; and a short list of all
kinds of patterns.
"""

from collections.abc import Iterator
from functools import cache
from itertools import permutations, product

from incidence.algebra import Pattern

CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">"}


def _faces() -> Iterator[tuple[str, tuple[str, ...]]]:
    for size in (1, 2, 3):
        for letters in permutations("ijk", size):
            for kind in CLOSING if size > 1 else [""]:
                yield f"{kind}{' '.join(letters)}{CLOSING.get(kind, '')}", letters


@cache
def patterns_of_order(order: int) -> tuple[str, ...]:
    """The patterns with a given number of faces, letters in order of appearance."""
    found: dict[Pattern, str] = {}
    for faces in product(list(_faces()), repeat=order):
        letters = list(dict.fromkeys(letter for _, own in faces for letter in own))
        if (
            letters == sorted(letters) and len(letters) == "ijk".find(letters[-1]) + 1
            if letters
            else True
        ):
            text = " ".join(face for face, _ in faces)
            found.setdefault(Pattern(text), text)
    return tuple(found.values())


WITH_SORTS = (
    "u:a",
    "u:a m:b",
    "u:a v:a m:b",
    "(u:a m:b)",
    "{u:a v:a}",
    "{u:a v:a m:b}",
    "[u:a v:a] m:b",
    "u:a {u:a v:a} m:b",
    "(u:a m:b) (u:a n:b)",
    "<u:a v:a m:b>",
)

ALL_KINDS = (
    "",
    "i",
    "i i",
    "i j",
    "(i j)",
    "{i j}",
    "[i j]",
    "i {i j}",
    "i {j k}",
    "{i j} {i k}",
    "(i j) (j k)",
    "(i j k)",
    "{i j k}",
    "[i j k]",
    "i {i j k}",
    "i j k",
    "{i j} {j k} {k i}",
    "<i j>",
    "<i j k>",
    "i <j i>",
    "i <j k>",
    "<i j> <j k>",
    "{i j} <i j k>",
    *WITH_SORTS,
)
