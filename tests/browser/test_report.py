"""The report of a run in a browser: it fits a phone, and what is drawn is seen in the light and in
the dark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

PHONE = {"width": 400, "height": 850}
SMILES = ["CC(=O)Nc1ccc(O)cc1", "FC(F)(Cl)CBr", "CS(=O)(=O)[O-].[Na+]", "OP(=O)(O)OCC"]

# Tables that are wider than the room they have; all details are open.
TOO_WIDE = """() => {
  document.querySelectorAll("details").forEach(one => one.open = true);
  return [...document.querySelectorAll(".scroll")].filter(one => one.scrollWidth > one.clientWidth)
    .map(one => one.querySelector("th").textContent);
}"""

# The least contrast between a line or a letter of a molecule and its card.
CONTRAST = """() => {
  const light = colour => {
    const linear = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const parts = colour.match(/[0-9.]+/g).slice(0, 3).map(c => linear(c / 255));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05;
  };
  let least = 99;
  for (const card of document.querySelectorAll(".card")) {
    const paper = light(getComputedStyle(card).backgroundColor);
    for (const shape of card.querySelectorAll("svg [class*=bond], svg [class*=atom]")) {
      const style = getComputedStyle(shape);
      const ink = light(style.stroke === "none" ? style.fill : style.stroke);
      least = Math.min(least, Math.max(ink, paper) / Math.min(ink, paper));
    }
  }
  return least;
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of labels of molecules, with names that are long."""
    pytest.importorskip("rdkit")
    from incidence.train import train
    from incidence.train.report import finish

    folder = tmp_path_factory.mktemp("report")
    names = [
        "Neoplasms benign, malignant and unspecified",
        "CT_TOX_of_a_name_without_blanks",
        "Eye disorders",
    ]
    rows = [f"{SMILES[k % 4]},{k % 2},{k // 2 % 2},{k // 4 % 2}" for k in range(80)]
    (folder / "labels.csv").write_text(
        "\n".join([f'smiles,"{names[0]}",{names[1]},{names[2]}', *rows]) + "\n"
    )
    run = train(
        {
            "data": str(folder / "labels.csv"),
            "out": str(folder / "run"),
            "epochs": 1,
            "hidden": 4,
            "depth": 1,
        }
    )
    assert run is not None
    finish(run)
    return run.folder.report


def test_a_report_fits_a_phone_and_all_numbers_are_seen_at_once(browser: Any, report: Path) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(report.as_uri())
    # what every layer does is scrolled
    assert set(page.evaluate(TOO_WIDE)) <= {"layer", "formula"}
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_molecules_are_seen_in_the_light_and_in_the_dark(
    scheme: str, browser: Any, report: Path
) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(report.as_uri())
    assert 1.9 < page.evaluate(CONTRAST) < 99  # phosphorus and sulphur are the palest
    page.close()
