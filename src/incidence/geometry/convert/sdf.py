"""SDF files (V2000), read and written without RDKit."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any

import torch

from incidence.errors import IncidenceError
from incidence.geometry.convert.elements import MASS, NUMBER, SYMBOLS
from incidence.geometry.convert.molecule import Molecule
from incidence.structure.example import Example
from incidence.structure.storage import whole_file

__all__ = ["Molecule", "read_sdf", "write_sdf"]

_END = "$$$$"
_CHARGE = {0: (0, 0), 1: (3, 0), 2: (2, 0), 3: (1, 0), 4: (0, 1), 5: (-1, 0), 6: (-2, 0), 7: (-3, 0)}
"""The charge and the unpaired electrons that the old code in an atom line means."""
_HYDROGEN = {"D": 2, "T": 3}
_UNPAIRED = {0: 0, 1: 2, 2: 1, 3: 2}
"""Unpaired electrons by spin multiplicity, as `M  RAD` has it; a singlet has two in one orbital."""


class _BrokenError(Exception):
    """What is wrong, and in which line of the record."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line, self.problem = line, problem


def read_sdf(path: Any, errors: list[IncidenceError] | None = None) -> Iterator[Molecule]:
    r"""Reads the molecules of an SDF or MOL file (V2000; also compressed with gzip), one after the other.

    Args:
        path: The file.
        errors: A list to which the errors of broken records are added while reading goes on with the next; if not given, the first one is
            raised.

    Raises:
        IncidenceError: A record is broken, or there is none; the message names the file, the record and the line.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> water = Molecule("water", torch.tensor([[8, 0, 0, 0]]), torch.zeros(1, 3), torch.zeros(2, 0).long(), torch.zeros(0, 1).long())
        >>> with TemporaryDirectory() as folder:
        ...     write_sdf([water], f"{folder}/water.sdf")
        ...     list(read_sdf(f"{folder}/water.sdf"))
        [Molecule('water', 1 atoms, 0 bonds, properties=[])]
    """
    if not isinstance(path, (str, PathLike)):
        raise IncidenceError(f"read_sdf takes the path of a file; got {path!r}.")
    path = Path(path)
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    return _molecules(path, errors)


def _molecules(path: Path, errors: list[IncidenceError] | None) -> Iterator[Molecule]:
    number = 0
    with _open(path) as file:
        for number, (start, lines) in enumerate(_records(file), 1):
            try:
                molecule = _parse(lines)
            except _BrokenError as broken:
                error = IncidenceError(f"{path}, record {number}, line {start + broken.line}: {broken.problem}.")
                if errors is None:
                    raise error from None
                errors.append(error)
                continue
            yield molecule
    if not number:
        raise IncidenceError(f"{path} has no record: an SDF file has at least one molecule.")


def _open(path: Path) -> IO[str]:
    opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8", errors="surrogateescape", newline=None)


def _records(file: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of every record, and the number of the first."""
    lines: list[str] = []
    start = number = 1
    for number, line in enumerate(file, 1):
        text = line.rstrip("\n")
        if text.startswith(_END):
            yield start, lines
            lines, start = [], number + 1
        else:
            lines.append(text)
    if any(line.strip() for line in lines):  # a MOL file ends without the mark
        yield start, lines


def _integer(text: str, line: int, what: str) -> int:
    try:
        return int(text) if text.strip() else 0
    except ValueError:
        raise _BrokenError(line, f"{what} is a number; got {text!r}") from None


def _parse(lines: list[str]) -> Molecule:
    if len(lines) < 4:
        raise _BrokenError(len(lines), "the record ends before its counts line, the fourth")
    counts = lines[3]
    if "V3000" in counts:
        raise _BrokenError(3, "this is a V3000 record, and V2000 is what can be read here. Convert the file, for example with RDKit")
    num_atoms, num_bonds = _integer(counts[0:3], 3, "the number of atoms"), _integer(counts[3:6], 3, "the number of bonds")
    if not counts[0:3].strip() or num_atoms < 0 or num_bonds < 0:
        raise _BrokenError(3, f"the counts line starts with the numbers of atoms and bonds; got {counts!r}")
    if len(lines) < 4 + num_atoms + num_bonds:
        raise _BrokenError(len(lines), f"the record ends before its {num_atoms} atoms and {num_bonds} bonds")
    positions, atoms = [], []
    for number in range(4, 4 + num_atoms):
        at, atom = _atom(lines[number], number)
        positions.append(at)
        atoms.append(atom)
    bonds = [_bond(lines[number], number, num_atoms) for number in range(4 + num_atoms, 4 + num_atoms + num_bonds)]
    end = _property_lines(lines, 4 + num_atoms + num_bonds, atoms)
    pairs = torch.tensor(bonds, dtype=torch.long).view(-1, 3)
    return Molecule(
        name=lines[0].strip(),
        atoms=torch.tensor(atoms, dtype=torch.long).view(-1, 4),
        positions=torch.tensor(positions, dtype=torch.float64).view(-1, 3),
        bonds=pairs[:, :2].T.contiguous(),
        orders=pairs[:, 2:].contiguous(),
        properties=_data_items(lines, end),
    )


def _atom(text: str, line: int) -> tuple[tuple[float, float, float], list[int]]:
    """The position of an atom, and its number, charge, isotope and unpaired electrons; what a short line lacks is 0."""
    try:
        at = float(text[0:10]), float(text[10:20]), float(text[20:30])
    except ValueError:
        raise _BrokenError(line, f"an atom line starts with three coordinates of ten characters; got {text!r}") from None
    symbol = text[31:34].strip()
    number = 1 if symbol in _HYDROGEN else NUMBER.get(symbol)
    if number is None:
        raise _BrokenError(line, f"characters 32 to 34 of an atom line are the symbol of an element; got {symbol!r}")
    shift = _integer(text[34:36], line, "the mass difference")
    isotope = _HYDROGEN.get(symbol, MASS[number] + shift if shift else 0)
    code = _integer(text[36:39], line, "the charge code")
    if code not in _CHARGE:
        raise _BrokenError(line, f"the charge code of an atom is one of 0 to 7; got {code}")
    charge, unpaired = _CHARGE[code]
    return at, [number, charge, isotope, unpaired]


def _bond(text: str, line: int, num_atoms: int) -> tuple[int, int, int]:
    one, other, order = (_integer(text[k : k + 3], line, "an atom or the type of a bond") for k in (0, 3, 6))
    for atom in (one, other):
        if not 1 <= atom <= num_atoms:
            raise _BrokenError(line, f"a bond joins two of the atoms 1 to {num_atoms}; got {atom}")
    if one == other:
        raise _BrokenError(line, f"a bond joins two different atoms; got {one} twice")
    if not 1 <= order <= 8:
        raise _BrokenError(line, f"the type of a bond is one of 1 to 8; got {order}")
    return one - 1, other - 1, order


def _property_lines(lines: list[str], start: int, atoms: list[list[int]]) -> int:
    """Takes charges, isotopes and radicals from the lines up to `M  END`; where there are any, those in atom lines count for nothing."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    line = start
    while line < len(lines) and not lines[line].startswith("M  END"):
        text = lines[line]
        if text.startswith(">"):
            break
        if text[:6] in ("M  CHG", "M  ISO", "M  RAD"):
            words = text[6:].split()
            numbers = [_integer(word, line, f"a value of `{text[:6]}`") for word in words]
            if not numbers or len(numbers) != 1 + 2 * numbers[0]:
                raise _BrokenError(line, f"`{text[:6]}` has a number of pairs, then so many pairs of an atom and a value; got {text!r}")
            found.setdefault(text[:6], []).extend((a, v, line) for a, v in zip(numbers[1::2], numbers[2::2], strict=True))
        line += 2 if text[:3] in ("A  ", "G  ") else 1  # these have a line of text below them
    if line >= len(lines) or lines[line].startswith(">"):
        raise _BrokenError(min(line, len(lines)), "the block of atoms and bonds has no `M  END`")
    _apply(found, atoms)
    return line + 1


def _apply(found: dict[str, list[tuple[int, int, int]]], atoms: list[list[int]]) -> None:
    if "M  CHG" in found or "M  RAD" in found:
        for atom in atoms:
            atom[1] = atom[3] = 0
    if "M  ISO" in found:
        for atom in atoms:
            atom[2] = 0
    for kind, column in (("M  CHG", 1), ("M  ISO", 2), ("M  RAD", 3)):
        for number, value, line in found.get(kind, []):
            if not 1 <= number <= len(atoms):
                raise _BrokenError(line, f"`{kind}` speaks of one of the atoms 1 to {len(atoms)}; got {number}")
            atoms[number - 1][column] = _UNPAIRED.get(value, 0) if column == 3 else value


def _data_items(lines: list[str], start: int) -> dict[str, str]:
    """The items below `M  END`: a header with a name in angle brackets, lines of text, and an empty line."""
    items: dict[str, str] = {}
    line = start
    while line < len(lines):
        header = lines[line]
        line += 1
        if not header.strip():
            continue
        name = header[header.find("<") + 1 : header.rfind(">")]
        if not header.startswith(">") or "<" not in header[1:] or not name:
            raise _BrokenError(line - 1, f"a data item starts with `> <NAME>`; got {header!r}")
        first = line
        while line < len(lines) and lines[line].strip():
            line += 1
        items[name] = "\n".join(lines[first:line])
    return items


def write_sdf(molecules: Iterable[Molecule | Example], path: Any) -> None:
    r"""Writes molecules, or examples such as `Molecule.example` makes, as an SDF file (V2000); at once or not at all.

    Positions are written with four decimals, as the format has it.

    Raises:
        IncidenceError: There is no molecule, or one has more atoms or bonds than the format can count, or a position too large for it.
    """
    number = 0
    with whole_file(path) as file:
        for number, given in enumerate(molecules, 1):
            molecule = Molecule.of(given)
            if max(len(molecule.atoms), molecule.bonds.shape[1]) > 999:
                raise IncidenceError(f"write_sdf: molecule {number} has more than 999 atoms or bonds, which V2000 cannot count.")
            file.write(("\n".join(_record(molecule, number)) + "\n").encode(errors="surrogateescape"))
        if not number:
            raise IncidenceError("write_sdf: there is no molecule to write, and an SDF file has at least one.")


def _record(molecule: Molecule, number: int) -> list[str]:
    dimension = "3D" if bool(molecule.positions[:, 2].any()) else "2D"
    lines = [
        molecule.name,
        f"  incidenc{dimension:>12}",
        "",
        f"{len(molecule.atoms):3}{molecule.bonds.shape[1]:3}  0  0  0  0  0  0  0  0999 V2000",
    ]
    for (z, *_), at in zip(molecule.atoms.tolist(), molecule.positions.tolist(), strict=True):
        place = "".join(f"{v:10.4f}" for v in at)
        if len(place) != 30:
            raise IncidenceError(f"write_sdf: molecule {number} has an atom at {at}, which does not fit into ten characters each.")
        lines.append(f"{place} {SYMBOLS[z]:<3} 0  0  0  0  0  0  0  0  0  0  0  0")
    for one, other, order in torch.cat([molecule.bonds.T + 1, molecule.orders], dim=1).tolist():
        lines.append(f"{one:3}{other:3}{order:3}  0")
    for kind, column in (("CHG", 1), ("ISO", 2), ("RAD", 3)):
        values = [(k, row[column]) for k, row in enumerate(molecule.atoms.tolist(), 1) if row[column]]
        if column == 3:  # one unpaired electron is a doublet, two are a triplet
            values = [(k, {1: 2, 2: 3}.get(v, 0)) for k, v in values]
        for start in range(0, len(values), 8):
            part = values[start : start + 8]
            lines.append(f"M  {kind}{len(part):3}" + "".join(f" {k:3} {v:3}" for k, v in part))
    lines.append("M  END")
    for name, value in molecule.properties.items():
        lines += [f"> <{name}>", *value.split("\n"), ""]
    return [*lines, _END]
