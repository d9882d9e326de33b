"""`python -m whence.cli` is the same as `whence`."""

from whence.cli.app import main

main()
