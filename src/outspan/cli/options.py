"""Options that several commands share, and the sensor they describe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from outspan.embedders import DEFAULT_MODEL, VectorCache, load_embedder
from outspan.evidence import EvidencePolicy
from outspan.geometry.proxies import PROXIES, make_proxy
from outspan.geometry.subspace import RankPolicy
from outspan.sensors.energy import DEFAULT_RANK, EnergySensor
from outspan.sensors.reading import SENSORS, make_sensor, named

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--model",
        default=DEFAULT_MODEL,
        show_default=True,
        metavar="NAME|FOLDER",
        help="Embedding model: a name from `outspan models list`, st:NAME, or a folder.",
    ),
    click.option(
        "--rank",
        default=DEFAULT_RANK,
        show_default=True,
        metavar="cap:R|variance:Q",
        help="How many directions of the evidence are kept.",
    ),
    click.option(
        "--select",
        default="nearest:64",
        show_default=True,
        metavar="nearest:N|spread:N|all",
        help="Which evidence sentences span the subspace of a claim.",
    ),
    click.option(
        "--proxy",
        "proxies",
        multiple=True,
        metavar="NAME",
        help=f"Measure another proxy beside the energy; repeatable. Known: {', '.join(PROXIES)}.",
    ),
    click.option(
        "--sensor",
        "sensors",
        multiple=True,
        metavar="NAME",
        help=f"Ask another sensor beside the energy; repeatable. Known: {', '.join(SENSORS)}.",
    ),
    click.option("--no-cache", is_flag=True, help="Neither read nor keep vectors on disk."),
)


def sensor_options(function: F) -> F:
    """Add the options that describe a sensor."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def build_sensor(
    *,
    model: str,
    rank: str,
    select: str,
    proxies: tuple[str, ...],
    sensors: tuple[str, ...] = (),
    no_cache: bool,
) -> EnergySensor:
    """The sensor that the options describe; options are checked before a model is loaded.

    Raises
    ------
    click.UsageError
        For a rank, selection, proxy or sensor that cannot be read.
    """
    try:
        policy = EvidencePolicy.parse(select)
        rank_policy = RankPolicy.parse(rank)
        named_proxies = [make_proxy(name) for name in proxies]
        named_sensors = list(named(make_sensor(name) for name in sensors).values())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    folder = Path(model)
    embedder = load_embedder(folder if folder.is_dir() else model)
    cache = None if no_cache else VectorCache()
    return EnergySensor(
        embedder,
        rank=rank_policy,
        evidence=policy,
        proxies=named_proxies,
        sensors=named_sensors,
        cache=cache,
    )
