"""Golden text files: compared, or written anew when WHENCE_WRITE_GOLDEN is set."""

import os
from pathlib import Path


def check(path: Path, text: str) -> None:
    if os.environ.get("WHENCE_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{path.name} differs; see WHENCE_WRITE_GOLDEN"
