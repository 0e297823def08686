"""Structures and examples from and to the libraries people use; each library is needed only by what
uses it.

Every `from_` gives an `Example` in the order of the other side; every `to_` takes an example or a
structure. Where the other side cannot hold what it is given, a sentence says so.
"""

from incidence.geometry.convert.gudhi import from_gudhi, to_gudhi
from incidence.geometry.convert.hif import HifTables, read_hif, read_hif_tables, write_hif
from incidence.geometry.convert.networkx import from_networkx, to_networkx
from incidence.geometry.convert.numpy import from_numpy, to_numpy
from incidence.geometry.convert.pyg import from_pyg
from incidence.geometry.convert.pyg_graphs import to_pyg
from incidence.geometry.convert.rdkit import from_rdkit, to_rdkit
from incidence.geometry.convert.scipy import from_scipy, to_scipy
from incidence.geometry.convert.sdf import Molecule, read_sdf, write_sdf
from incidence.geometry.convert.toponetx import from_toponetx, to_toponetx
from incidence.geometry.convert.trimesh import from_trimesh, to_trimesh

__all__ = [
    "HifTables",
    "Molecule",
    "from_gudhi",
    "from_networkx",
    "from_numpy",
    "from_pyg",
    "from_rdkit",
    "from_scipy",
    "from_toponetx",
    "from_trimesh",
    "read_hif",
    "read_hif_tables",
    "read_sdf",
    "to_gudhi",
    "to_networkx",
    "to_numpy",
    "to_pyg",
    "to_rdkit",
    "to_scipy",
    "to_toponetx",
    "to_trimesh",
    "write_hif",
    "write_sdf",
]
