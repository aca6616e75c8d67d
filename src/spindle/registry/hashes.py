"""Checks the hash that an entry gives for a package that another program will download."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

from spindle.documents.bounds import Bounds
from spindle.documents.text import read_any
from spindle.domain.json_schema import is_array, is_object
from spindle.errors import ConfigurationError, ConnectionFailedError, ServerError, from_status
from spindle.http.client import HttpClient
from spindle.http.exchange import RedirectPolicy, exchange
from spindle.http.failures import HttpFailure
from spindle.http.request import Prepared
from spindle.registry.bundle import download
from spindle.registry.entry import Package

PLACES: Final[dict[str, str]] = {
    "npm": "https://registry.npmjs.org",
    "nuget": "https://api.nuget.org",
    "pypi": "https://pypi.org",
}
MAX_DESCRIPTION: Final = 16 * 1024 * 1024


async def check_hash(http: HttpClient, package: Package, folder: Path, *, may_be_inside: bool) -> None:
    """Raises an error unless the published file of a package has the hash of its entry. Whoever publishes
    packages of these types cannot change a version, so what is checked now is what will be run."""
    if package.sha256 is None:
        return
    if package.type == "oci":
        if f"@sha256:{package.sha256}" in package.identifier:
            return  # the program that starts it checks that
        raise ConfigurationError(
            f"the entry gives a hash for the image {package.identifier}, which cannot be checked",
            hint="only a digest in the image's own name can: IMAGE@sha256:…",
        )
    if package.type == "pypi":
        await _check_published(http, package)
        return
    file = await download(http, _address(package), package.sha256, folder, may_be_inside=may_be_inside)
    file.unlink()


def _address(package: Package) -> str:
    name, version = package.identifier, package.version or ""
    if package.type == "npm":
        last = name.rpartition("/")[2]
        return f"{PLACES['npm']}/{quote(name, safe='@/')}/-/{quote(last)}-{quote(version)}.tgz"
    name, version = name.lower(), version.lower()
    return f"{PLACES['nuget']}/v3-flatcontainer/{name}/{quote(version)}/{name}.{quote(version)}.nupkg"


async def _check_published(http: HttpClient, package: Package) -> None:
    """PyPI says the hashes of all files of a version, of which one is installed."""
    url = f"{PLACES['pypi']}/pypi/{package.identifier}/{quote(package.version or '')}/json"
    request = Prepared("GET", url, {"accept": "application/json"})
    try:
        async with exchange(http, request, RedirectPolicy(most=3), timeout=30.0) as answer:
            if answer.status >= 300:
                raise from_status(answer.status, f"{url} answered with HTTP status {answer.status}")
            found = read_any(await answer.read(MAX_DESCRIPTION), Bounds(size=MAX_DESCRIPTION, depth=60))
    except HttpFailure as failure:
        raise ConnectionFailedError(f"cannot get {url}: {failure}") from failure
    files = found.get("urls") if is_object(found) else None
    digests = [
        item["digests"].get("sha256")
        for item in (files if is_array(files) else ())
        if is_object(item) and is_object(item.get("digests"))
    ]
    if package.sha256 not in digests:
        raise ServerError(
            f"no file of {package.identifier} {package.version} has the SHA-256 that the entry gives",
            hint="nothing was run; tell those who publish it",
        )
