"""What there is to train on and with, as a text."""

from __future__ import annotations

from incidence.data import DATA_SETS
from incidence.models import PRESETS

__all__ = ["listing"]

_FOLDERS = """\
Your own data (--data PATH):
  folder/targets.csv, columns file,target[,split]     files of any kind beside it
  folder/CLASS/FILE or folder/CLASS/{train,test}/FILE  a class for each folder
  molecules.sdf with --target PROPERTY                 or several: A,B
  examples.npz, written by Example.save
Options of a data set, a reader or a lift: --data-options family=sr251256"""


def listing() -> str:
    """Data sets, models and layouts of folders."""
    sets = "\n".join(f"  {name:<22}{source.about}" for name, source in DATA_SETS.items())
    models = "\n".join(f"  {name:<16}{preset.inputs or 'all tensors':<42}{preset.about}" for name, preset in PRESETS.items())
    return f"Data sets (--data NAME --folder DATA):\n{sets}\n\nModels (--model NAME):\n{models}\n\n{_FOLDERS}"
