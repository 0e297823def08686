"""Zip files of data sets, read in memory."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

from incidence.errors import IncidenceError
from incidence.geometry.meshes import Mesh, read_mesh

__all__ = ["Archive", "read_triangles"]


class Archive:
    """The files of a zip file that a data set is made of.

    Args:
        name: What users call the data set.
        folder: Where to look; None is refused.
        places: Paths under the folder, of which the first that is there is taken.

    Raises:
        IncidenceError: There is none, or it is no zip file.
    """

    def __init__(self, name: str, folder: Path | None, places: Sequence[str]) -> None:
        if folder is None:
            raise IncidenceError(f"the data set {name!r} is read from your disk: give the folder that holds {places[0]} with --folder.")
        found = next((Path(folder) / place for place in places if (Path(folder) / place).is_file()), None)
        if found is None:
            raise IncidenceError(f"the data set {name!r} needs {places[0]}, which is not in {folder}: give its folder with --folder.")
        self.path = found
        try:
            with zipfile.ZipFile(found) as opened:
                self._files = {entry: opened.read(entry) for entry in opened.namelist() if not entry.endswith("/")}
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise IncidenceError(f"{found} cannot be read: {error}. Fetch the file again.") from None

    def listed(self, suffix: str) -> list[PurePosixPath]:
        """The paths that end so, in the order of their folders, and by number (or name) within."""
        paths = [PurePosixPath(name) for name in self._files if name.endswith(suffix)]
        if not paths:
            raise IncidenceError(f"{self.path} has no files *{suffix}: it is another file, or a part of one. Fetch the file again.")
        return sorted(paths, key=lambda p: (p.parent, len(p.stem), p.stem))

    def read(self, path: PurePosixPath) -> bytes:
        """A file of the archive."""
        if str(path) not in self._files:
            raise IncidenceError(f"{self.path} lacks {path}. Fetch the file again.")
        return self._files[str(path)]


class _Named(BytesIO):
    name = ""  # what messages call the file


def read_triangles(archive: Archive, path: PurePosixPath) -> Mesh:
    """A mesh of the archive, all of triangles."""
    file = _Named(archive.read(path))
    file.name = f"{archive.path}, {path}"
    mesh = read_mesh(file, format=path.suffix)
    if mesh.face_pattern != "{i j k}":
        raise IncidenceError(f"{file.name} has faces other than triangles. Fetch the file again.")
    return mesh
