"""Run examples one after the other in one JVM: run_examples.py EXAMPLE ..."""

import runpy
import sys


def main(examples: list[str]) -> None:
    for example in examples:
        try:
            runpy.run_path(example, run_name="__main__")
        except SystemExit as end:
            if end.code:
                sys.exit(f"{example} ended with {end.code}")


if __name__ == "__main__":
    main(sys.argv[1:])
