"""Stand-ins for NVIDIA's .run files: scripts that unpack themselves, with the vendor's options and little in them.

What they bring lies where the vendor's bring it; no kernel module is built. An option that the vendor's installer does
not have ends them, as it ends the vendor's.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path

DRIVER_OPTIONS = ("--silent", "--dkms", "--kernel-module-type=open", "--kernel-module-type=proprietary")
TOOLKIT_OPTIONS = ("--silent", "--toolkit")

_HEAD = """\
#!/bin/sh
set -e
for option in "$@"; do
    case "$option" in
        {options}) ;;
        *) echo "unrecognized option: $option" >&2; exit 1 ;;
    esac
done
payload() {{ sed '1,/^__PAYLOAD__$/d' "$0"; }}
payload | tar --extract --gzip --no-same-owner --directory=/
{after}
exit 0
__PAYLOAD__
"""


def driver(target: Path, version: str, scratch: Path) -> None:
    """The driver's: a library with its name, nvidia-smi, the uninstaller, the archive with the daemon's unit."""
    library = f"usr/lib/x86_64-linux-gnu/libcuda.so.{version}"
    init = {
        "nvidia-persistenced-init/install.sh": _INSTALL,
        "nvidia-persistenced-init/systemd/nvidia-persistenced.service": _UNIT,
    }
    files = {
        library: _library("libcuda.so.1", scratch),
        "usr/bin/nvidia-smi": b"#!/bin/sh\n",
        # Trees have a stand-in of bzip2 only, and tar goes by the content.
        "usr/share/doc/NVIDIA_GLX-1.0/samples/nvidia-persistenced-init.tar.bz2": _packed(init),
    }
    paths = [*files, "usr/lib/x86_64-linux-gnu/libcuda.so.1", "usr/bin/nvidia-uninstall"]
    remove = "".join(f"rm -f -- /{path}\n" for path in paths)
    files["usr/bin/nvidia-uninstall"] = (
        f'#!/bin/sh\n[ "$1" = --silent ] || exit 1\n{remove}rm -rf -- /usr/share/doc/NVIDIA_GLX-1.0\nldconfig\n'.encode()
    )
    after = f"ln -sfn libcuda.so.{version} /usr/lib/x86_64-linux-gnu/libcuda.so.1; ldconfig; date >/var/log/nvidia-installer.log"
    write(target, DRIVER_OPTIONS, files, after)


def toolkit(target: Path, version: str) -> None:
    """The toolkit's: nvcc and version.json, the link without version, the entry for the loader."""
    short = ".".join(version.split(".")[:2])
    home = f"usr/local/cuda-{short}"
    nvcc = f"#!/bin/sh\necho 'Cuda compilation tools, release {short}, V{version}'\n"
    files = {
        f"{home}/bin/nvcc": nvcc.encode(),
        f"{home}/version.json": f'{{"cuda": {{"name": "CUDA SDK", "version": "{version}"}}}}\n'.encode(),
        f"etc/ld.so.conf.d/cuda-{short.replace('.', '-')}.conf": f"/{home}/lib64\n".encode(),
    }
    after = f"ln -sfn /{home} /usr/local/cuda; date >/var/log/cuda-installer.log"
    write(target, TOOLKIT_OPTIONS, files, after)


def version_of(name: str) -> str:
    """The version in the name of one of the vendor's .run files."""
    found = re.search(r"cuda_([\d.]+)_|-([\d.]+)\.run$", name)
    assert found, name
    return found[1] or found[2]


def write(target: Path, options: tuple[str, ...], files: dict[str, bytes], after: str = "") -> None:
    """A file that takes these options, unpacks ``files``, and then runs ``after``."""
    head = _HEAD.format(options=" | ".join(options), after=after)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(head.encode() + _packed(files))


def _packed(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            entry.mode = 0o755 if "/bin/" in path or path.endswith(".sh") else 0o644
            archive.addfile(entry, io.BytesIO(text))
    return content.getvalue()


def _library(soname: str, scratch: Path) -> bytes:
    source, target = scratch / "library.c", scratch / "library.so"
    source.write_text("int cuDriverGetVersion(int *version) { *version = 13020; return 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", str(target), str(source)], check=True)
    return target.read_bytes()


_INSTALL = b"""\
#!/bin/sh
set -e
unit=/etc/systemd/system/nvidia-persistenced.service
case "${1:-}" in
    -r) rm -f -- "$unit" ;;
    *) cp -- "${0%/*}/systemd/nvidia-persistenced.service" "$unit" ;;
esac
"""
_UNIT = b"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
