"""Run examples one after the other in one JVM: run_examples.py EXAMPLE ...

What is in the archive after each of them is kept in after/NAME.
"""

import runpy
import shutil
import sys
from pathlib import Path


def main(examples: list[str]) -> None:
    for example in examples:
        try:
            runpy.run_path(example, run_name="__main__")
        except SystemExit as end:
            if end.code:
                sys.exit(f"{example} ended with {end.code}")
        shutil.copytree("provenance", Path("after", Path(example).stem))


if __name__ == "__main__":
    main(sys.argv[1:])
