"""E505: no target lies under a folder that is mounted when the container starts."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.house.world import World
    from orchestrator.checks.view import View


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each touched file that a mount would hide."""
    view = world.view
    for path in sorted(touched):
        for image_path in _in_image(path, view):
            mount = next((m for m in view.facts.mounts if _is_under(image_path, m)), None)
            if mount is not None:
                message = f"{image_path} lies under {mount}, which is mounted when the container starts"
                help_ = "The build cannot change it: change it on the host, or let the stage write another place."
                yield Diagnostic("E505", message, Place(path), help=help_)
                break
    yield from _of_wheels(world)


def _of_wheels(world: World) -> Iterator[Diagnostic]:
    """Yield one finding for each mount that would hide what wheels bring: a package has many files."""
    hidden: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(world.brought):
        for image_path in _in_image(path, world.view):
            for mount in (m for m in world.view.facts.mounts if _is_under(image_path, m)):
                hidden.setdefault(mount, []).append((path, image_path))
    for mount, found in hidden.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        message = f"{found[0][1]}{more} of a wheel lies under {mount}, which is mounted when the container starts"
        help_ = "The build cannot put it there: install it when the container starts, or into another place."
        yield Diagnostic("E505", message, Place(found[0][0]), help=help_)


def _in_image(path: str, view: View) -> tuple[str, ...]:
    """Return the paths that a file of the tree has in the image; a path from `/` is one already."""
    if path.startswith("/"):
        return (path,)
    root, _, rest = path.partition("/")
    return tuple(posixpath.join(folder, rest) for folder in view.facts.roots.get(root, ()))


def _is_under(path: str, folder: str) -> bool:
    # Two slashes at the front stay two to POSIX, and mean one to every system that runs containers.
    path, folder = (posixpath.normpath(f"/{spelled.lstrip('/')}") for spelled in (path, folder))
    return folder in {"/", path} or path.startswith(f"{folder}/")
