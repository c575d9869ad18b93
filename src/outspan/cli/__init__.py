"""The command line. It only reads files, calls the instrument and shows what came back.

Exit codes: 0 done; 1 a check failed (only with ``--fail-on``); 2 unusable input or usage, with the file, the
line and the remedy; 130 interrupted.
"""

from __future__ import annotations

import sys

import click

from outspan import __version__
from outspan.cli.check import check
from outspan.cli.contract import contract
from outspan.cli.inspect import inspect
from outspan.cli.measure import measure
from outspan.cli.models import models
from outspan.errors import OutspanError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: outspan check answer.md --evidence report.md --evidence notes.txt",
)
@click.version_option(__version__, prog_name="outspan")
def cli() -> None:
    """Measure how much of a claim lies outside the span of its evidence.

    The measurement, Hallucination Energy, is a sensor and not a verdict: `outspan contract` says what it
    can and cannot see. Runs on a CPU, offline once the embedding model is fetched, without an LLM.
    """


for command in (check, measure, inspect, contract, models):
    cli.add_command(command)


def main() -> None:
    """Run the command line; errors made on purpose become a message and exit code 2."""
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except OutspanError as error:
        click.echo(f"outspan: {error}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("outspan: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe went away, as `head` does: no error of ours, and nothing more to write.
        sys.stderr.close()
        sys.exit(0)
