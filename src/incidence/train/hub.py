"""Models on the Hugging Face Hub, by the mixin of `huggingface_hub`.

The model is sent, and no path of the machine that it was made on.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from huggingface_hub import ModelHubMixin, snapshot_download

from incidence.errors import IncidenceError, shown
from incidence.train.model import Model
from incidence.train.model_spec import in_one_line
from incidence.train.run_folder import RunFolder, write

__all__ = ["HubModel"]

_CARD = """\
---
{{ card_data }}
---

{{ about }}

```python
import incidence as inc

model = inc.train.Model.from_pretrained("USER/NAME")
model.predict(...)  # files, folders, data frames, graphs of PyG or examples
```
"""
_LOGGER = logging.getLogger("huggingface_hub.hub_mixin")
# which is config.yaml here
_LOGGER.addFilter(lambda record: "config.json not found" not in record.getMessage())
_OPTIONS = ("revision", "cache_dir", "force_download", "local_files_only", "token")
_FILES = ("config.yaml", "model.json", "model.safetensors", "metrics.json", "known.npz")


class HubModel(  # type: ignore[misc]
    ModelHubMixin, Model, library_name="incidence", tags=["incidence"], model_card_template=_CARD
):
    """A trained model that goes to the Hub and comes from there.

    Users call `Model.push_to_hub` and `Model.from_pretrained`. The mixin comes first, so that its
    methods of these names are called.
    """

    def _save_pretrained(self, save_directory: Path) -> None:
        """Write the model as a folder of a run, with the name of its data, and no path.

        A model of ratings or links also needs what it knows.
        """
        folder, name = RunFolder(save_directory), Path(self.spec.data).name
        spec = replace(self.spec, data=name)
        write(folder.spec, json.dumps(spec.plain(), indent=1) + "\n")
        write(
            folder.config,
            self.config.replace(data=name, folder=None, nodes=None, tables=None).to_yaml(),
        )
        if self.metrics:
            write(folder.metrics, json.dumps({**self.metrics, "data": name}, indent=1) + "\n")
        folder.save_weights(self.predictor, spec)
        if spec.is_completion:
            folder.save_known(self.folder.load_known())

    @classmethod
    def from_pretrained(cls, name: Any, **options: Any) -> HubModel:  # type: ignore[override]
        """Load the model of a folder, or of a repository of the Hub.

        Raises:
            IncidenceError: There is none, or the Hub cannot be reached.
        """
        try:
            model: HubModel = super().from_pretrained(name, **options)
        except IncidenceError:
            raise
        except (OSError, ValueError) as error:
            raise IncidenceError(
                f"{shown(str(name))} is no folder of a model, and cannot be loaded from the Hub:"
                f" {in_one_line(error)}."
            ) from error
        return model

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> HubModel:
        """Load the model of a folder, or of a repository of the Hub."""
        path = Path(model_id).expanduser()
        if not path.is_dir():
            known = {key: options[key] for key in _OPTIONS if key in options}
            path = Path(snapshot_download(model_id, allow_patterns=list(_FILES), **known))
        return cls(RunFolder.open(path))

    def generate_model_card(self, *args: Any, **kwargs: Any) -> Any:
        """Return a few lines about the model."""
        kind, names = self.spec.task.kind, ", ".join(self.spec.task.names[:10])
        about = (
            f"A network of incidence for {kind} of {names}, trained on {Path(self.spec.data).name}."
        )
        return super().generate_model_card(*args, about=about, **kwargs)
