"""Publish the facts as a signed repository of The Update Framework: keys, roles, signatures, rotation.

    ci/bundle.py keys FOLDER NAME ...                     new ed25519 keys: NAME.pem (private), NAME.pub
    ci/bundle.py init REPO KEY.pem ... --root A.pub ...   the first root: who signs which role
    ci/bundle.py publish REPO KEY.pem ...                 the facts of this checkout
    ci/bundle.py generated REPO KEY.pem ...               only matrices/generated, as a machine may
    ci/bundle.py refresh REPO KEY.pem ...                 a new time stamp for what is published
    ci/bundle.py rotate REPO ROLE KEY.pem ... --add X.pub --remove Y.pub
    ci/bundle.py sign REPO ROLE KEY.pem ...               further signatures of its newest version
    ci/bundle.py one-file REPO FILE                       all of it in one file, for machines without a network

docs/maintaining.md says who holds which key. A private key is read from its file; nothing is written next to it.
"""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from securesystemslib.signer import CryptoSigner, SSlibKey
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Signed,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization.json import JSONSerializer
from tuf.repository import Repository

ROOT = Path(__file__).resolve().parent.parent
GENERATED = "generated"
"""The delegated role of a machine."""
EXPIRY = {
    "root": timedelta(days=365),
    "targets": timedelta(days=180),
    GENERATED: timedelta(days=90),
    "snapshot": timedelta(days=45),
    "timestamp": timedelta(days=45),
}
"""How long a signature is good: 45 days without a new time stamp end every update, as the program's warning does."""
ROLES = tuple(EXPIRY)


class Folder(Repository):
    """A repository in a folder: ``metadata/`` and ``targets/``, as a server or a mirror publishes them."""

    def __init__(self, path: Path, signers: list[CryptoSigner], now: datetime | None = None) -> None:
        self.path = path
        self.signers = signers
        self.now = now or datetime.now(timezone.utc)

    def open(self, role: str) -> Metadata:
        """The newest version of a role, or a first one."""
        newest = self.newest(role)
        if newest is not None:
            return Metadata.from_file(str(newest))
        first: dict[str, type[Signed]] = {"snapshot": Snapshot, "timestamp": Timestamp, "root": Root}
        signed = first.get(role, Targets)()
        signed.version = 0
        if isinstance(signed, Snapshot):
            signed.meta["targets.json"].version = 0
        if isinstance(signed, Timestamp):
            signed.snapshot_meta.version = 0
        return Metadata(signed)

    def newest(self, role: str) -> Path | None:
        if role == "timestamp":
            path = self.path / "metadata" / "timestamp.json"
            return path if path.exists() else None
        found = (self.path / "metadata").glob(f"*.{role}.json")
        return max(found, key=lambda path: int(path.name.split(".")[0]), default=None)

    def close(self, role: str, md: Metadata) -> None:
        """Write the next version of a role with the signatures of all keys at hand that it takes."""
        md.signed.version += 1
        md.signed.expires = (self.now + EXPIRY[role]).replace(microsecond=0)
        md.signatures.clear()
        self.add_signatures(role, md)
        self.write(role, md)

    def add_signatures(self, role: str, md: Metadata) -> None:
        for signer in self.signers:
            if signer.public_key.keyid in self.keyids(role, md):
                md.sign(signer, append=True)

    def keyids(self, role: str, md: Metadata) -> set[str]:
        """The keys of a role: a root is signed by those of the version before it as well."""
        if role == GENERATED:
            delegations = self.targets().delegations
            if delegations is None or delegations.roles is None:
                sys.exit("no role of a machine is delegated: init --generated X.pub")
            return set(delegations.roles[GENERATED].keyids)
        roots = [md.signed] if isinstance(md.signed, Root) else [self.root()]
        before = self.newest("root")
        if role == "root" and before is not None:
            roots.append(Metadata[Root].from_file(str(before)).signed)
        return {keyid for root in roots for keyid in root.roles[role].keyids}

    def write(self, role: str, md: Metadata) -> None:
        folder = self.path / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        name = "timestamp.json" if role == "timestamp" else f"{md.signed.version}.{role}.json"
        new = folder / f".{name}.new"
        md.to_file(str(new), JSONSerializer(compact=False))
        new.replace(folder / name)

    @property
    def targets_infos(self) -> dict[str, MetaFile]:
        roles = ["targets", *([GENERATED] if self.newest(GENERATED) else [])]
        return {f"{role}.json": MetaFile(self.targets(role).version) for role in roles}

    @property
    def snapshot_info(self) -> MetaFile:
        return MetaFile(self.snapshot().version)

    def add_target(self, role: str, name: str, data: bytes) -> None:
        """Put a file under its sha256 and name it in the role."""
        target = TargetFile.from_data(name, data, ["sha256"])
        head, _, tail = name.rpartition("/")
        path = self.path / "targets" / head / f"{target.hashes['sha256']}.{tail}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        with self.edit_targets(role) as targets:
            targets.targets[name] = target

    def announce(self, *, is_forced: bool = False) -> None:
        """The new snapshot and time stamp: with them, clients see what was added."""
        if self.targets().delegations is not None and self.newest(GENERATED) is None:
            sys.exit("clients require the delegated role: publish with `generated` first")
        self.do_snapshot()
        self.do_timestamp(force=is_forced)
        for role in ("root", *(name.removesuffix(".json") for name in self.targets_infos), "snapshot", "timestamp"):
            self.report(role)

    def report(self, role: str) -> None:
        """Say which signatures a role lacks: persons in other places add theirs with ``sign``."""
        md = self.open(role)
        delegator: Root | Targets = self.targets() if role == GENERATED else self.root()
        result = delegator.get_verification_result(role, md.signed_bytes, md.signatures)
        state = "complete" if result else f"needs {result.threshold - len(result.signed)} more signature(s)"
        print(f"{role} {md.signed.version}, valid until {md.signed.expires:%Y-%m-%d}: {state}")


def make_keys(folder: Path, names: list[str]) -> None:
    """New keys, each readable by its owner alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        signer = CryptoSigner.generate_ed25519()
        handle = os.open(folder / f"{name}.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(signer.private_bytes)
        (folder / f"{name}.pub").write_bytes(public_pem(signer))


def public_pem(signer: CryptoSigner) -> bytes:
    return str(signer.public_key.keyval["public"]).encode()


def public_key(path: Path) -> SSlibKey:
    """The key of a .pub file: 64 hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(bytes.fromhex(path.read_text(encoding="utf-8"))))


def signer_of(path: Path) -> CryptoSigner:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return CryptoSigner(load_pem_private_key(path.read_bytes(), None))


def init(repo: Folder, keys: dict[str, list[Path]], thresholds: dict[str, int]) -> None:
    """The first root and, with a key of a machine, its delegation."""
    if repo.newest("root") is not None:
        sys.exit(f"{repo.path} has a root already: rotate changes its keys")
    with repo.edit_root() as root:
        root.consistent_snapshot = True
        for role in ("root", "targets", "snapshot", "timestamp"):
            for path in keys[role]:
                root.add_key(public_key(path), role)
            root.roles[role].threshold = thresholds[role]
    if keys[GENERATED]:
        machine = [public_key(path) for path in keys[GENERATED]]
        role = DelegatedRole(
            GENERATED,
            [key.keyid for key in machine],
            thresholds[GENERATED],
            terminating=True,
            paths=[f"{GENERATED}/*"],
        )
        with repo.edit_targets() as targets:
            targets.delegations = Delegations({key.keyid: key for key in machine}, {GENERATED: role})


def rotate(repo: Folder, role: str, add: list[Path], remove: list[Path], threshold: int | None) -> None:
    """A new root (for the machine's role, new targets) with other keys for a role."""
    editing = repo.edit_targets() if role == GENERATED else repo.edit_root()
    with editing as holder:
        for path in add:
            holder.add_key(public_key(path), role)
        for path in remove:
            holder.revoke_key(public_key(path).keyid, role)
        roles = holder.roles if isinstance(holder, Root) else holder.delegations.roles if holder.delegations else None
        if threshold is not None and roles:
            roles[role].threshold = threshold


def publish(repo: Folder, role: str, made: str, matrices: Path = ROOT / "matrices") -> None:
    """The facts of a folder as a target of ``targets`` (all) or ``generated`` (a machine's subjects)."""
    sys.path.insert(0, str(ROOT / "src"))
    from msgspec.structs import replace

    from gpustack.matrix.compile import compile_folder
    from gpustack.matrix.feed import bundle as bundles
    from gpustack.matrix.layout import matrix_files

    stamps = {name: (0, path.stat().st_size) for name, path in matrix_files(matrices).items()}
    index, files = compile_folder(matrices, stamps)
    name = bundles.NAME
    if role == GENERATED:
        name = bundles.GENERATED_NAME
        subjects = {key: entry for key, entry in index.subjects.items() if entry.is_generated}
        wanted = {one for key, entry in subjects.items() for one in (key, *(f"{key}.{t}" for t in entry.tables))}
        index, files = replace(index, subjects=subjects), {key: files[key] for key in wanted}
    bundle = bundles.Bundle(index=replace(index, made=made), files=files)
    repo.add_target(role, name, bundles.pack(bundle))


def one_file(repo: Path, target: Path) -> None:
    """The roots, the newest other metadata, and the files that they name, as a zip archive."""
    reader = Folder(repo, [])
    metadata = [*(repo / "metadata").glob("*.root.json"), repo / "metadata" / "timestamp.json"]
    metadata += [path for role in ("snapshot", "targets", GENERATED) if (path := reader.newest(role))]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in metadata:
            archive.write(path, f"metadata/{path.name}")
        for role in (role.removesuffix(".json") for role in reader.targets_infos):
            for name, info in reader.targets(role).targets.items():
                head, _, tail = name.rpartition("/")
                place = Path("targets", head, f"{info.hashes['sha256']}.{tail}").as_posix()
                archive.write(repo / place, place)


def read_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    keys = actions.add_parser("keys")
    keys.add_argument("folder", type=Path)
    keys.add_argument("names", nargs="+")
    first = actions.add_parser("init")
    first.add_argument("repo", type=Path)
    for role in ROLES:
        first.add_argument(f"--{role}", type=Path, action="append", default=[], metavar="X.pub")
        first.add_argument(f"--{role}-threshold", type=int, default=2 if role == "root" else 1)
    first.add_argument("key", type=Path, nargs="*")
    for name in ("publish", "generated", "refresh"):
        action = actions.add_parser(name)
        action.add_argument("repo", type=Path)
        action.add_argument("key", type=Path, nargs="+")
    turn = actions.add_parser("rotate")
    turn.add_argument("repo", type=Path)
    turn.add_argument("role", choices=ROLES)
    turn.add_argument("--add", type=Path, action="append", default=[])
    turn.add_argument("--remove", type=Path, action="append", default=[])
    turn.add_argument("--threshold", type=int)
    turn.add_argument("key", type=Path, nargs="*")
    sign = actions.add_parser("sign")
    sign.add_argument("repo", type=Path)
    sign.add_argument("role", choices=ROLES)
    sign.add_argument("key", type=Path, nargs="+")
    pack = actions.add_parser("one-file")
    pack.add_argument("repo", type=Path)
    pack.add_argument("file", type=Path)
    return parser.parse_args(words)


def main(words: list[str]) -> None:
    given = read_arguments(words)
    if given.action == "keys":
        make_keys(given.folder, given.names)
        return
    if given.action == "one-file":
        one_file(given.repo, given.file)
        return
    repo = Folder(given.repo, [signer_of(path) for path in given.key])
    if given.action == "init":
        named = vars(given)
        init(repo, {role: named[role] for role in ROLES}, {role: named[f"{role}_threshold"] for role in ROLES})
        repo.report("root")
    elif given.action == "rotate":
        rotate(repo, given.role, given.add, given.remove, given.threshold)
        repo.report("targets" if given.role == GENERATED else "root")
    elif given.action == "sign":
        md = repo.open(given.role)
        repo.add_signatures(given.role, md)
        repo.write(given.role, md)
        repo.report(given.role)
    else:
        if given.action != "refresh":
            role = "targets" if given.action == "publish" else GENERATED
            publish(repo, role, f"{repo.now:%Y-%m-%dT%H:%M:%SZ}")
        repo.announce(is_forced=given.action == "refresh")


if __name__ == "__main__":
    main(sys.argv[1:])
