"""The command line. It only reads files, calls the instrument and shows what came back.

Exit codes: 0 done; 1 a check failed (only with ``--fail-on``); 2 unusable input or usage, with the file, the
line and the remedy; 130 interrupted.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from pathlib import Path

import click

from outspan import __version__
from outspan.errors import OutspanError

COMMANDS = {
    "check": "outspan.cli.check:check",
    "measure": "outspan.cli.measure:measure",
    "inspect": "outspan.cli.inspect:inspect",
    "calibrate": "outspan.cli.calibrate:calibrate_command",
    "gate": "outspan.cli.gate:gate",
    "ledger": "outspan.cli.ledger:ledger",
    "drift": "outspan.cli.drift:drift",
    "evaluate": "outspan.cli.evaluate:evaluate",
    "report": "outspan.cli.report:report",
    "reproduce": "outspan.cli.reproduce:reproduce",
    "contract": "outspan.cli.contract:contract",
    "selftest": "outspan.cli.selftest:selftest",
    "models": "outspan.cli.models:models",
}
"""Name to where the command lives, in the order in which help lists them."""


class Commands(click.Group):
    """Imports a command when it is asked for, so that ``check`` does not wait for what it does not use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Every name, in the order of ``COMMANDS``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, or None."""
        home = COMMANDS.get(cmd_name)
        if home is None:
            return None
        module, _, name = home.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: outspan check answer.md --evidence report.md --evidence notes.txt",
)
@click.version_option(__version__, prog_name="outspan")
def cli() -> None:
    """Measure how much of a claim lies outside the span of its evidence.

    The measurement, Hallucination Energy, is a sensor and not a verdict: `outspan contract` says what it
    can and cannot see. Runs on a CPU, offline once the embedding model is fetched, without an LLM.
    """


def main() -> None:
    """Run the command line; errors made on purpose become a message and exit code 2."""
    _prepare_streams()
    try:
        # Not cli(): that turns a closed pipe into exit code 1, which here says that a check failed.
        with cli.make_context("outspan", sys.argv[1:]) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        used = getattr(error, "ctx", None)
        if used is not None and used.parent is not None and used.command.epilog:
            click.echo(used.command.epilog, err=True)
        sys.exit(2)
    except OutspanError as error:
        click.echo(f"outspan: {_printable(str(error))}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("outspan: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe went away, as `head` does: no error of ours, and nothing more to write.
        _leave_quietly()
    except OSError as error:
        # Standard output is full, or a disk failed under an open file.
        click.echo(f"outspan: {error.strerror or error}", err=True)
        _forget_output()
        sys.exit(2)


def _prepare_streams() -> None:
    """Write UTF-8 whatever the locale says: JSON stays JSON, and what UTF-8 cannot hold is escaped."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open to the end
    if sys.stdout is None:
        click.echo("outspan: standard output is closed", err=True)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _printable(message: str) -> str:
    """A message without controls that a file name could carry into the terminal; line ends stay."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in message)


def _leave_quietly() -> None:
    _forget_output()
    sys.exit(0)


def _forget_output() -> None:
    """Keep the interpreter from flushing, at its end, what can no longer be written."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
