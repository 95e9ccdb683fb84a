"""python -m mainspring.cli: the command, for when its script is not on the PATH."""

from . import main

main(prog_name="mainspring")
