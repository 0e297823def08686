"""The reader of molecule files: from records to examples with features; RDKit makes sense of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from incidence.data.molecules.features import Description, Tables, assert_hydrogens, describe
from incidence.data.molecules.records import FORMATS, Record
from incidence.data.readers import Read, Reader
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.sdf import Molecule
from incidence.structure.examples import uncollate

__all__ = ["READER", "read_records"]

_TOGETHER = 256  # molecules whose features are made at once: ten times as fast as one by one
_BONDS = ("file", "distance")
_STRETCH = 1.15
"""Atoms are bonded up to this multiple of the sum of their covalent radii: of 1.15, 1.2, 1.25 and 1.3 the one that agrees best with QM9."""
_MOST_TRIES = 10_000  # at orders of bonds, before they all stay single: large molecules that lack hydrogens would take forever


def _read(
    path: Path,
    errors: list[IncidenceError] | None = None,
    *,
    hydrogens: str = "count",
    lengths: bool = False,
    bonds: str = "file",
    smiles: str | None = None,
) -> Iterator[Read]:
    """Reads the molecules of a file, with features.

    Args:
        path: The file.
        errors: Takes the errors of single records, while reading goes on; if not given, the first one is raised.
        hydrogens: As for `features_of`.
        lengths: As for `features_of`.
        bonds: `file`, or `distance` for bonds found from positions in space.
        smiles: The column of a table that has the SMILES, if it is not clear.
    """
    path = Path(path)
    if bonds not in _BONDS:
        raise IncidenceError(f"bonds is one of {', '.join(_BONDS)}; got {bonds!r}.")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in FORMATS:
        raise IncidenceError(
            f"{path} is no file of molecules: those end in {', '.join(FORMATS)}, and may be compressed (.gz)."
        )
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    assert_hydrogens(hydrogens)
    need("rdkit.Chem", f"reading {path}", "molecules")
    records, by_distance = FORMATS[suffix](path, smiles), bonds == "distance" or suffix == ".xyz"
    return read_records(
        records,
        path.name,
        str(path),
        errors,
        hydrogens=hydrogens,
        lengths=lengths,
        by_distance=by_distance,
    )


def read_records(
    records: Iterable[Record],
    name: str,
    source: str,
    errors: list[IncidenceError] | None,
    *,
    hydrogens: str = "count",
    lengths: bool = False,
    by_distance: bool = False,
) -> Iterator[Read]:
    """The molecules of some records with features, called by a name and their number; messages say source and place of those that fail."""
    number, numbered = 0, enumerate(records, 1)
    while some := list(islice(numbered, _TOGETHER)):
        sound: list[tuple[str, Molecule, Description]] = []
        for number, (place, found) in some:
            try:
                if isinstance(found, IncidenceError):
                    raise found
                described = describe(bonded(found.mol) if by_distance else found, hydrogens)
                called = (
                    place if place.startswith(f"{name} ") else f"{name}:{number}"
                )  # rows of a frame have names of their own
                sound.append((f"{called} {found.name}".rstrip(), found, described))
            except IncidenceError as problem:
                error = (
                    problem
                    if source in str(problem)
                    else IncidenceError(f"{source}, {place}: {problem}")
                )
                if errors is None:
                    raise error from None
                errors.append(error)
        examples = (
            uncollate(Tables.of([described for *_, described in sound], lengths).batch())
            if sound
            else []
        )
        for (title, molecule, described), example in zip(sound, examples, strict=True):
            yield Read(
                title, example, tuple(str(k + 1) for k in described.nodes), molecule.properties
            )
    if not number:
        raise IncidenceError(f"{source} has no record: a file has at least one molecule.")


def bonded(mol: Any) -> Any:
    """A copy with the bonds that the distances of its atoms tell, and orders that fill their valences; all hydrogens must be there.

    Where no orders do, all bonds are single.
    """
    chem, bonds = (
        need(f"rdkit.Chem{part}", "finding bonds", "molecules")
        for part in ("", ".rdDetermineBonds")
    )
    if not mol.GetNumAtoms():
        return mol  # it is refused for that
    if not mol.GetNumConformers():
        raise IncidenceError(
            "bonds are found from positions in space, and the molecule has none. Give a file that has them, such as XYZ."
        )
    found = chem.RWMol(mol)
    with need("rdkit.rdBase", "finding bonds", "molecules").BlockLogs():
        bonds.DetermineConnectivity(found, useVdw=True, covFactor=_STRETCH)
        ordered, charge = chem.Mol(found), chem.GetFormalCharge(found)
        try:
            bonds.DetermineBondOrders(
                ordered, charge=charge, embedChiral=False, maxIterations=_MOST_TRIES
            )
        except (ValueError, RuntimeError):
            return found
    return ordered


READER = Reader(
    suffixes=tuple(suffix + end for suffix in FORMATS for end in ("", ".gz")), read=_read
)
"""Reads files of molecules; options `hydrogens`, `lengths`, `bonds` and `smiles`."""
