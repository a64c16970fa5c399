"""`python -m ncclrun`, and what the `ncclrun` command calls: Ctrl-C during the imports ends it without a traceback."""

from __future__ import annotations

import signal


def main() -> None:
    """Imports the command line, which takes a moment in which there is nothing to clean up, and runs it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ncclrun.cli.main import main as command

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, before)
    command()


if __name__ == "__main__":
    main()
