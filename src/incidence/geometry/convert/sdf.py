"""SDF files, which RDKit reads and writes; here are their records, line numbers and errors."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, Any

import torch

from incidence.errors import IncidenceError, need
from incidence.files import regular_file, whole_file
from incidence.geometry.convert.exchange import as_example
from incidence.geometry.convert.rdkit import plain, to_rdkit
from incidence.limits import assert_unpacked
from incidence.structure.example import Example

__all__ = ["Molecule", "read_sdf", "records", "write_sdf"]

_LARGEST = 99999.0  # a coordinate with four decimals in ten characters
_REASON = re.compile(
    r"(?:Violation\n|Range Error\n|\] (?:ERROR: )?)(.+?)\.?(?: (?:hit )?on line ?\d+)?$",
    re.MULTILINE,
)
_LINE = re.compile(r"(?<!occurred on )\bline ?(\d+)", re.IGNORECASE)
"""The line of the record in what RDKit logs; `occurred on line` is about its own code."""


@dataclass(frozen=True, eq=False)
class Molecule:
    r"""A record of an SDF file.

    Attributes:
        name: The first line of the record.
        mol: The molecule of RDKit, with the atoms and bonds of the file in their order; not
            sanitised, so that nothing in it is changed.
        properties: The data items, as text.
    """

    name: str
    mol: Any
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def symbols(self) -> list[str]:
        """The symbols of the elements of the atoms."""
        return [atom.GetSymbol() for atom in self.mol.GetAtoms()]

    def example(self, target: str | Sequence[str] | None = None) -> Example:
        """Return the molecule as an example: atoms are `i`, bonds `{i j}` with their order,
        positions `pos=i`.

        Args:
            target: The property to predict, or several of them; they must be numbers.

        Raises:
            IncidenceError: A property is missing or is no number.
        """
        example = plain(self.mol)
        if target is None:
            return example
        found = (
            self._number(target)
            if isinstance(target, str)
            else [self._number(name) for name in target]
        )
        return example.replace(target=torch.tensor(found))

    def _number(self, name: str) -> float:
        if name not in self.properties:
            known = ", ".join(self.properties) or "none"
            raise IncidenceError(
                f"the molecule {self.name!r} has no property `{name}`; it has: {known}."
            )
        try:
            return float(self.properties[name])
        except ValueError:
            raise IncidenceError(
                f"the property `{name}` of the molecule {self.name!r} is {self.properties[name]!r},"
                " no number."
            ) from None

    def __repr__(self) -> str:
        counts = f"{self.mol.GetNumAtoms()} atoms, {self.mol.GetNumBonds()} bonds"
        return f"Molecule({self.name!r}, {counts}, properties={list(self.properties)})"


def read_sdf(path: Any, errors: list[IncidenceError] | None = None) -> Iterator[Molecule]:
    r"""Read the molecules of an SDF or MOL file (also compressed with gzip), one after the other.

    Args:
        path: The file.
        errors: A list to which the errors of broken records are added while reading goes on with
            the next; if not given, the first one is raised.

    Raises:
        IncidenceError: A record is broken, or there is none; the message names the file, the record
            and the line.
        MissingExtraError: RDKit is not installed.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from rdkit import Chem
        >>> with TemporaryDirectory() as folder:
        ...     ethanol = Molecule("ethanol", Chem.MolFromSmiles("CCO"), {"SOL": "1.1"})
        ...     write_sdf([ethanol], f"{folder}/one.sdf")
        ...     list(read_sdf(f"{folder}/one.sdf"))
        [Molecule('ethanol', 3 atoms, 2 bonds, properties=['SOL'])]
    """
    need("rdkit.Chem", "reading SDF files", "molecules")
    return _sound(records(regular_file(path, "an SDF file")), errors)


def _sound(
    listed: Iterable[Molecule | IncidenceError], errors: list[IncidenceError] | None
) -> Iterator[Molecule]:
    for one in listed:
        if isinstance(one, Molecule):
            yield one
        elif errors is None:
            raise one
        else:
            errors.append(one)


def records(path: Path) -> Iterator[Molecule | IncidenceError]:
    """Yield the molecules of a file, or what is wrong with their records, in order."""
    number = 0
    if path.suffix == ".gz":
        assert_unpacked(path)
    # Latin-1 takes any byte; each record is then read as UTF-8, if it is that.
    opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="latin-1", newline=None) as file:
        for number, (start, lines) in enumerate(_split(file), 1):
            text = "".join(lines)
            with suppress(UnicodeDecodeError):
                text = text.encode("latin-1").decode()
            molecule = _parse(text)
            if isinstance(molecule, Molecule):
                yield molecule
            else:
                line, reason = molecule
                where = f"line {start + line - 1}" if line else f"which starts in line {start}"
                yield IncidenceError(
                    f"{path}, record {number}, {where}: RDKit cannot read it: {reason}."
                )
    if not number:
        raise IncidenceError(f"{path} has no record: a file has at least one molecule.")


def _split(file: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of every record, and the number of the first."""
    lines: list[str] = []
    start = 1
    for number, line in enumerate(file, 1):
        if line.startswith("$$$$"):
            yield start, lines
            lines = []
            start = number + 1
        else:
            lines.append(line)
    if any(line.strip() for line in lines):  # a MOL file ends without the mark
        yield start, lines


def _parse(text: str) -> Molecule | tuple[int, str]:
    """The molecule of a record, or the number of the line that is wrong, 0 if it is not known, and
    the reason.
    """
    chem = need("rdkit.Chem", "reading SDF files", "molecules")
    base = need("rdkit.rdBase", "reading SDF files", "molecules")
    # RDKit before 2026 gives no reasons
    capture = getattr(base, "CaptureErrorLog", base.BlockLogs)
    # RDKit says what is wrong in its log alone, which would otherwise go to the terminal.
    with base.BlockLogs(), capture() as log:
        supplier = chem.ForwardSDMolSupplier(
            # as it is in the file
            BytesIO(text.encode()),
            sanitize=False,
            removeHs=False,
            strictParsing=False,
        )
        mol = next(supplier, None)
    logged = getattr(log, "messages", "")
    # an unknown element is logged, and read as an atom that stands for others
    if mol is None or logged:
        reason = _REASON.search(logged)
        line = _LINE.search(logged)
        number = int(line[1]) if line else 0
        return number, reason[1] if reason else "it says no more"
    properties = {name: mol.GetProp(name) for name in mol.GetPropNames()}
    return Molecule(text.partition("\n")[0].strip(), mol, properties)


def write_sdf(molecules: Iterable[Molecule | Example], path: Any) -> None:
    r"""Write molecules, or examples such as `Molecule.example` makes, as an SDF file, completely or
    not at all.

    Positions are written with four decimals. Molecules of more than 999 atoms or bonds are written
    in the newer format V3000.

    Raises:
        IncidenceError: There is no molecule, or one has a position too large for the format.
    """
    chem = need("rdkit.Chem", "write_sdf", "molecules")
    text = StringIO()
    number = 0
    writer = chem.SDWriter(text)
    writer.SetKekulize(False)
    for number, one in enumerate(molecules, 1):
        if not isinstance(one, Molecule):
            one = Molecule("", to_rdkit(as_example(one, "write_sdf").replace(target=None)))
        mol = chem.Mol(one.mol)  # properties of the caller's molecule stay
        if not mol.GetNumConformers():
            mol.AddConformer(chem.Conformer(mol.GetNumAtoms()))  # RDKit would draw the molecule
        if abs(mol.GetConformer().GetPositions()).max(initial=0) > _LARGEST:
            raise IncidenceError(
                f"write_sdf: molecule {number} has a position beyond {_LARGEST:g}, which takes over"
                " ten characters."
            )
        for name in list(mol.GetPropNames()):
            mol.ClearProp(name)
        for name, value in {"_Name": one.name, **one.properties}.items():
            mol.SetProp(name, value)
        writer.write(mol)
    writer.close()
    if not number:
        raise IncidenceError(
            "write_sdf: there is no molecule to write, and an SDF file has at least one."
        )
    with whole_file(path) as file:
        file.write(text.getvalue().encode())
