"""The package itself: imports, names, the table in the docs, pictures and the example."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import arrays as benchmark

import whence.arrays as wa
from whence.arrays.catalogue import CATALOGUE, ELEMENTWISE
from whence.arrays.coverage import BEGIN, END, measure, row
from whence.errors import ArrayError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "arrays.md"


def test_heavy_packages_are_not_imported() -> None:
    program = (
        "import sys, numpy as np, whence.arrays as wa\n"
        "wa.provenance(wa.track(lambda x: np.sort(x))(np.ones(3))).relation('x').rows()\n"
        "print([m for m in ('pyspark', 'duckdb', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_public_names() -> None:
    assert set(wa.__all__) == {
        "Cells",
        "FolderStore",
        "InputAxis",
        "MemoryStore",
        "Provenance",
        "Relation",
        "Row",
        "ViewStore",
        "Views",
        "declare",
        "provenance",
        "track",
        "tracked",
    }
    for name in wa.__all__:
        assert getattr(wa, name).__doc__, name


def test_the_catalogue_holds_the_seeds_functions() -> None:
    assert len(CATALOGUE) == len({e.name for e in CATALOGUE}) == 136
    assert len(ELEMENTWISE) == 69


def committed() -> str:
    return DOCS.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


# Every ninth function of the table, and those whose cells depend on values.
CHECKED = ["cross", "reshape", "median", *(entry.name for entry in CATALOGUE[::9])]


@pytest.mark.parametrize("name", CHECKED)
def test_rows_of_the_table_in_the_docs_are_current(name: str) -> None:
    entry = next(e for e in CATALOGUE if e.name == name)
    assert row(measure(entry)) in committed().splitlines()


def test_the_docs_state_the_coverage_asked_for() -> None:
    total = next(line for line in committed().splitlines() if line.startswith("| total"))
    shares = [float(part.partition("(")[2].partition(" ")[0]) for part in total.split("|")[3:5]]
    assert shares[0] > 92 and shares[1] > 73
    assert total.split("|")[5].strip() == "0"


@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5)])
def test_pictures(shape: tuple[int, ...]) -> None:
    result = wa.track(lambda x: np.cumsum(x, axis=-1))(np.ones(shape))
    found = wa.provenance(result)
    cell = tuple(1 for _ in shape)
    figure = found.picture(cell)
    panels = figure.axes
    assert len(panels) == 2
    shown = [np.asarray(p.get_images()[0].get_array()) for p in panels]
    assert shown[0].sum() == 1 and shown[1].sum() == 2
    assert found.name in panels[0].get_title() and panels[1].get_title().startswith("x")


def test_pictures_that_cannot_be_drawn() -> None:
    found = wa.provenance(wa.track(lambda x: x * 2)(np.ones((1, 2, 1, 2))))
    with pytest.raises(ArrayError, match="4 axes"):
        found.picture((0, 0, 0, 0))
    found = wa.provenance(wa.track(lambda x: x * 2)(np.ones((40, 2, 2))))
    with pytest.raises(ArrayError, match="panels"):
        found.picture()


def test_html() -> None:
    found = wa.provenance(wa.track(lambda x: np.sin(x))(np.ones((3, 4))))
    assert "(3, 4): exact" in found._repr_html_()
    text = found.relation("x")._repr_html_()
    assert "<td>[0, 2]</td>" in text and "<th>a2</th>" in text
    many = wa.Relation(wa.provenance(wa.track(np.sort)(np.arange(50)[::-1])).relation("a").form)
    assert "more rows" in many._repr_html_()


def test_the_example(tmp_path: Path, capsys: Any) -> None:
    script = ROOT / "examples" / "pixels" / "pixels.py"
    module = runpy.run_path(str(script))
    module["main"](tmp_path)
    text = capsys.readouterr().out
    assert "exact" in text and (tmp_path / "pixels.png").stat().st_size > 5000
    image = module["make_image"]()
    found = module["hotspot"](image)
    pixels = wa.provenance(found).cells(0)["image"].mask()
    # only the pixels named can move this row: dark elsewhere, it is still found
    kept = np.where(pixels, image, 0.0)
    assert found[0].tolist() in module["hotspot"].function(kept).tolist()
    assert pixels.sum() == 9


def test_the_benchmark_measures() -> None:
    rows = benchmark.queries(repeat=1)
    assert {r["query"] for r in rows} >= {"element-wise, one cell"}
    assert [r["cells_found"] for r in rows][:3] == [1, 1_000_000, 10_000]
    entry = next(e for e in CATALOGUE if e.name == "negative")
    figures = benchmark._capture_row(entry, np.random.default_rng(0), budget=0.01)
    # no index is made for an element-wise function: far less than a byte for each cell
    assert figures["extra_bytes_per_cell"] < 0.1


@pytest.mark.full
def test_memory_beyond_the_arrays_is_at_most_one_index() -> None:
    rng = np.random.default_rng(0)
    for name in ("sort", "maximum", "amax", "roll", "concatenate", "cumsum", "percentile"):
        entry = next(e for e in CATALOGUE if e.name == name)
        figures = benchmark._capture_row(entry, rng, budget=0.0)
        assert figures["extra_bytes_per_cell"] <= 8.1, name
