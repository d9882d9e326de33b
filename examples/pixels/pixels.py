"""Which pixels made a hot spot? Smoothing, a threshold, `argwhere`, and back to the pixels.

Run it with `python examples/pixels/pixels.py [FOLDER]`; it writes `pixels.png` into the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import whence.arrays


def smooth(image: np.ndarray) -> np.ndarray:
    """The mean of the three by three pixels around each pixel; the border is repeated."""
    padded = np.pad(image, 1, mode="edge")
    rows, columns = image.shape
    total = np.zeros_like(image)
    for down in range(3):
        for right in range(3):
            total += padded[down : down + rows, right : right + columns]
    return total / 9


@whence.arrays.track
def hotspot(image: np.ndarray) -> np.ndarray:
    """Positions of pixels whose neighbourhood is bright."""
    return np.argwhere(smooth(image) > 0.5)


def make_image(seed: int = 7) -> np.ndarray:
    """A dark plate with noise and two warm spots."""
    rng = np.random.default_rng(seed)
    down, right = np.mgrid[0:24, 0:32]
    spots = [(6, 8, 2.5), (16, 23, 3.0)]
    warm = sum(np.exp(-((down - y) ** 2 + (right - x) ** 2) / (2 * s * s)) for y, x, s in spots)
    return np.clip(warm + rng.normal(0, 0.05, down.shape), 0, 1)


def main(folder: Path) -> None:
    """Find hot spots, ask for the pixels behind one, and draw them."""
    image = make_image()
    found = hotspot(image)
    provenance = whence.arrays.provenance(found)
    print(f"{len(found)} hot pixels; {provenance}")
    row = len(found) - 1
    pixels = provenance.backward(row)["image"]
    print(f"row {row} of the result, pixel {found[row].tolist()}, comes from:")
    print("  " + ", ".join(f"({y}, {x})" for y, x in zip(*pixels, strict=True)))
    print(
        f"pixel (6, 8) goes to rows {sorted(set(provenance.forward('image', (6, 8))[0].tolist()))}"
    )
    relation = provenance.relation("image")
    print(f"relation: {len(relation.rows())} rows, {relation.nbytes} bytes")
    print(relation.sql("SELECT b1, count(DISTINCT (a1, a2)) AS pixels FROM relation "
                       "GROUP BY b1 ORDER BY b1 LIMIT 3").to_pylist())  # fmt: skip
    picture = provenance.picture(row)
    folder.mkdir(parents=True, exist_ok=True)
    picture.savefig(folder / "pixels.png", dpi=120)
    print(f"wrote {folder / 'pixels.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
