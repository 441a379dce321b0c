"""Network file systems are recognised: by the kernel's number, or by its list of mounts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from etude.store.filesystems import FUSE, NETWORK_KINDS, Statfs, cache_folder, is_made_up, network_kind, place_name


def told(number: int | None) -> Statfs:
    """Answer as a kernel that knows one file system."""
    return lambda folder: number


@pytest.mark.parametrize(("number", "kind"), NETWORK_KINDS.items())
def test_a_network_file_system_is_known_by_its_number_whatever_the_mounts_say(number: int, kind: str) -> None:
    assert network_kind(Path("/var/studies"), statfs=told(number), mounts=MOUNTS) == kind


@pytest.mark.parametrize(
    "number", [0xEF53, 0x01021994, 0x58465342, 0x9123683E, 0x794C7630]
)  # ext4 tmpfs xfs btrfs overlay
def test_a_local_file_system_is_local_whatever_the_mounts_say(number: int) -> None:
    assert network_kind(Path("/home/ada/studies"), statfs=told(number), mounts=MOUNTS) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="statfs has such numbers on Linux")
def test_this_machine_is_asked_about_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    asked: list[Path] = []

    def statfs(folder: Path) -> int:
        asked.append(folder)
        return 0x6969

    assert network_kind(tmp_path / "not" / "yet", statfs=statfs) == "nfs"
    assert asked == [tmp_path.resolve()]
    assert network_kind(tmp_path / "not" / "yet") == ""  # the real kernel, on a local disk
    if Path("/dev/shm").is_dir():
        assert network_kind(Path("/dev/shm/studies")) == ""


def test_sshfs_is_told_from_a_disk_that_fuse_mounts_by_the_mounts() -> None:
    assert network_kind(Path("/mnt/over there/s"), statfs=told(FUSE), mounts=MOUNTS) == "fuse.sshfs"
    assert network_kind(Path("/mnt/usb/s"), statfs=told(FUSE), mounts=MOUNTS) == ""


def test_what_is_kept_for_a_place_is_named_by_all_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert place_name("s3://a/one") != place_name("s3://b/one")
    assert place_name("s3://a/one").startswith("one-")
    assert set(place_name("/home/ada/my study/")) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "etude"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "etude"


MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/local xfs rw 0 0
tmpfs /mnt tmpfs rw 0 0
me@host:/data /mnt/over\\040there fuse.sshfs rw 0 0
//nas/share /mnt/nas cifs rw 0 0
/dev/sdc1 /mnt/nas ext4 rw 0 0
/dev/sdd1 /mnt/usb fuseblk rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "remote"),
    [
        ("/var/studies", False),
        ("/home/ada/studies", True),
        ("/homework", False),
        ("/home/local/studies", False),
        ("/mnt/over there/s", True),
        ("/mnt/nas/s", False),  # something local was mounted over it
        ("/mnt/usb/s", False),
    ],
)
def test_network_file_systems_are_recognised_by_the_deepest_and_latest_mount(folder: str, remote: bool) -> None:
    assert bool(network_kind(Path(folder), statfs=told(FUSE), mounts=MOUNTS)) is remote
    assert bool(network_kind(Path(folder), statfs=told(None), mounts=MOUNTS)) is remote


def test_without_a_list_of_mounts_a_folder_counts_as_local(tmp_path: Path) -> None:
    assert network_kind(tmp_path, statfs=told(None), mounts="") == ""


@pytest.mark.skipif(sys.platform != "linux", reason="statfs has such numbers on Linux")
def test_what_the_kernel_makes_up_keeps_no_files(tmp_path: Path) -> None:
    assert [is_made_up(folder) for folder in (Path("/proc"), Path("/sys"), tmp_path)] == [True, True, False]
