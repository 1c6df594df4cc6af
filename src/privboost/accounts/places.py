"""Location of a store: a local disk, under one name."""

from __future__ import annotations

from pathlib import Path

from privboost.errors import StoreError

_NETWORKS = {
    *(
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "davfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
    ),
    *("nfs4", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"),
}
_LOCAL_FUSE = ("fuse.ext2", "fuse.ext4", "fuse.ntfs", "fuseblk", "fuse.fuse-overlayfs")
_MOUNTS = Path("/proc/mounts")


def check_disk(path: Path) -> None:
    """Refuse a network file system, where it can be recognised (on Linux).

    Locks and flushes of many network file systems are unreliable: two processes could spend the
    same budget.
    """
    kind = _kind_of_mount(path.resolve().parent)
    if kind in _NETWORKS or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE):
        raise StoreError(
            f"{path} is on a network file system ({kind}), which may lose a charge: keep the store "
            "on a disk of the machine that trains"
        )


def check_one_name(path: Path) -> None:
    """Refuse an existing file with a second hard link.

    SQLite looks for the journal of an interrupted write next to the path that it opens. A process
    that opens the store by its other name would miss that journal, and a charge could be lost.
    """
    if path.exists() and path.stat().st_nlink > 1:
        raise StoreError(
            f"{path} has more than one name (hard links), and a charge could be lost: SQLite finds "
            "the journal of an interrupted write by the store's path; keep one name, the one that "
            "a -journal file belongs to if there is any, and remove the others"
        )


def _kind_of_mount(folder: Path) -> str:
    """Return the type of a folder's file system, or "" where it is unknown."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    found, kind = -1, ""
    for line in lines:
        _, place, own, *_ = line.split(" ")
        mount = Path(place.replace("\\040", " "))
        if (folder == mount or mount in folder.parents) and len(mount.parts) >= found:
            found, kind = len(mount.parts), own
    return kind
