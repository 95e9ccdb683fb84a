"""python -m mainspring.cli: the command, where its script is not on the PATH."""

from . import main

main(prog_name="mainspring")
