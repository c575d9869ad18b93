"""``python -m outspan``: the same as the command ``outspan``."""

from outspan.cli import main

main()
