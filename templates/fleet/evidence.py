#!/bin/sh
# -*- coding: utf-8 -*-
''':' # WANT_JSON: the arguments come in a file
for python in python3 /usr/libexec/platform-python python2.7 python2 python; do
    command -v "$python" >/dev/null 2>&1 && exec "$python" "$0" "$@"
done
echo '{"failed": true, "msg": "no Python 2.7 or 3.6 and newer is installed here"}'
exit 0
'''
# Written by gpustack from the declarations of `gpustack detect`. Reads this machine, changes nothing, needs no root and
# nothing but Python 2.7 or 3.6 and newer. Prints JSON: what it read, packed, for the controller to interpret.
from __future__ import print_function

import base64
import errno
import fnmatch
import json
import os
import re
import stat
import subprocess
import sys
import threading
import zlib

DECLARED = json.loads(r'''@DECLARED@''')
HOPS = 40
PIECE = 1 << 16


class Missing(Exception):
    pass


def decoded(data):
    return data if isinstance(data, type(u"")) else data.decode("utf-8", "replace")


def encoded(path):
    return path.encode("utf-8") if sys.version_info[0] < 3 else path


class Reader(object):
    """Reads below a root; links never lead outside of it, nothing blocks, every read has a limit."""

    def __init__(self, root):
        self.root = root.rstrip("/")
        self.entries = {}
        self.faults = {}
        self.left = DECLARED["total"]
        self.folders = {}

    def state(self, here):
        try:
            return os.lstat(encoded(self.root + here))
        except (OSError, ValueError) as exc:
            if getattr(exc, "errno", errno.ENOENT) not in (errno.ENOENT, errno.ENOTDIR):
                self.faults.setdefault(here, exc.strerror or str(exc))
            raise Missing(here)

    def resolve(self, path, last=True):
        """The path without links; each link on the way is kept."""
        pending, done, hops = path.split("/"), [], 0
        while pending:
            part = pending.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            here = "/" + "/".join(done + [part])
            state = self.state(here)
            if not stat.S_ISLNK(state.st_mode):
                target = self.flat(here, state) if pending else ""
                if not target:
                    done.append(part)
                    continue
            else:
                target = self.link(here)
                if not pending and not last:
                    return here
            hops += 1
            if hops > HOPS:
                raise Missing(path)
            if target.startswith("/"):
                done = []
            pending = target.split("/") + pending
        return "/" + "/".join(done)

    def link(self, here):
        target = decoded(os.readlink(encoded(self.root + here)))
        self.entries[here] = ["l", target]
        return target

    def flat(self, here, state):
        """The target of a link that an archive of a tree stores as a small file; "" for another file."""
        if not self.root or not stat.S_ISREG(state.st_mode) or not 0 < state.st_size <= 256:
            return ""
        with open(encoded(self.root + here), "rb") as stream:
            text = decoded(stream.read(257))
        if not re.match(u"[\\w.+:@/~-]+\\Z", text):
            return ""
        self.entries[here] = ["t", text]
        return text

    def see(self, path, last=True):
        """Keep that a path exists, and its kind."""
        try:
            here = self.resolve(path, last)
            state = self.state(here)
        except Missing:
            return False
        if stat.S_ISLNK(state.st_mode):
            self.link(here)
        else:
            self.flat(here, state)
            self.entries.setdefault(here, ["d", ""] if stat.S_ISDIR(state.st_mode) else ["f", state.st_size])
        return True

    def names(self, path):
        try:
            here = self.resolve(path)
        except Missing:
            return []
        if here not in self.folders:
            try:
                found = os.listdir(encoded(self.root + here) or "/")
            except OSError as exc:
                if exc.errno != errno.ENOTDIR:
                    self.faults.setdefault(here, exc.strerror or str(exc))
                    self.see(here)
                found = []
            else:
                self.see(here)
            names = []
            for name in found:
                try:
                    name = decoded(name)
                    name.encode("utf-8")
                except UnicodeError:
                    continue
                names.append(name)
            self.folders[here] = sorted(names)
        return self.folders[here]

    def listing(self, path, kept):
        """Keep the names in a folder that match."""
        for name in self.names(path):
            if not kept or re.match(kept, name):
                self.see(path.rstrip("/") + "/" + name, last=False)

    def glob(self, pattern, limit=2000):
        heads = [""]
        for part in pattern.strip("/").split("/"):
            if not set(part) & set("*?["):
                heads = [head + "/" + part for head in heads]
                continue
            heads = [
                head + "/" + name
                for head in heads
                for name in self.names(head or "/")
                if fnmatch.fnmatchcase(name, part)
            ][:limit]
        return [path for path in heads if self.is_there(path)]

    def is_there(self, path):
        try:
            self.state(self.resolve(path, last=False))
        except Missing:
            return False
        return True

    def data(self, path, limit, tail=False):
        """The content of a regular file, and the end of the links to it; None if it cannot be read."""
        try:
            here = self.resolve(path)
            if not stat.S_ISREG(self.state(here).st_mode):
                self.see(here)
                return None, here
            handle = os.open(encoded(self.root + here), os.O_RDONLY | os.O_NONBLOCK)
        except Missing:
            return None, ""
        except OSError as exc:
            self.faults[here] = exc.strerror or str(exc)
            self.see(here)
            return None, here
        try:
            size = os.fstat(handle).st_size
            if tail and size > limit:
                os.lseek(handle, size - limit, os.SEEK_SET)
            pieces, left = [], limit
            while left > 0:
                piece = os.read(handle, min(left, PIECE))
                if not piece:
                    break
                pieces.append(piece)
                left -= len(piece)
            return b"".join(pieces), here
        except OSError as exc:
            self.faults[here] = exc.strerror or str(exc)
            self.see(here)
            return None, here
        finally:
            os.close(handle)

    def keep(self, here, data):
        if len(data) > self.left:
            self.faults[here] = "was not sent: the answer of this host is too long"
            return
        self.left -= len(data)
        try:
            self.entries[here] = ["t", data.decode("utf-8")]
        except UnicodeError:
            self.entries[here] = ["b", base64.b64encode(data).decode("ascii")]

    def read(self, rule):
        """Everything that one declaration names."""
        for path in self.glob(rule["path"], rule.get("files", 200)):
            # One byte more than is allowed tells the controller that a file is too long.
            tail = rule.get("tail", False)
            data, here = self.data(path, rule["limit"] + (0 if tail else 1), tail)
            if data is None:
                continue
            known = self.entries.get(here, [""])
            if known[0] in ("t", "b") and not rule.get("again"):
                continue
            self.keep(here, KEEPERS[rule.get("keep", "all")](data, rule))


def everything(data, rule):
    return data


def only_fields(data, rule):
    """The fields at the beginning of a file, which end with an empty line."""
    return re.split(b"\r?\n\r?\n", data, 1)[0] + b"\n"


def only_lines(data, rule):
    """The lines with one of the words in any case."""
    words = [word.encode("utf-8") for word in DECLARED["words"]]
    return b"".join(line[:2000] + b"\n" for line in data.splitlines() if any(word in line.lower() for word in words))


def only_index(data, rule):
    """The lines of an index of modules that name the driver's; its beginning where none does."""
    return b"".join(line + b"\n" for line in data.splitlines() if b"nvidia" in line) or data[:80]


def only_matching(data, rule):
    """The lines of a configuration that match; the rest can hold passwords."""
    lines = decoded(data).splitlines()
    kept = [line for line in lines if re.search(rule["match"], line) and not line.lstrip().startswith("#")]
    return u"".join(line + u"\n" for line in kept).encode("utf-8")


def only_parts(data, rule):
    """Some parts of a JSON document."""
    try:
        document = json.loads(decoded(data))
    except ValueError:
        return b"{" if data.strip() else b""
    if not isinstance(document, dict):
        return b"[]"
    return json.dumps(dict((name, document[name]) for name in rule["parts"] if name in document)).encode("utf-8")


def only_variables(data, rule):
    """Some variables of a process."""
    names = [name.encode("utf-8") for name in rule["names"]]
    return b"\0".join(one for one in data.split(b"\0") if one.split(b"=")[0] in names)


def only_stanzas(data, rule):
    """The stanzas of dpkg's status file about packages that matter."""
    wanted = re.compile(u"(?:" + DECLARED["packages"] + u")\\Z")
    fields = re.compile(b"^(?:Package|Status|Version|Architecture|Maintainer|Source): [^\n]{0,400}", re.MULTILINE)
    found = []
    for stanza in data.replace(b"\r\n", b"\n").split(b"\n\n"):
        name = re.search(b"^Package: ([^\\s]{1,200})", stanza, re.MULTILINE)
        if name and wanted.match(name.group(1).decode("ascii", "replace")):
            found.append(b"\n".join(fields.findall(stanza)) + b"\n\n")
    return b"".join(found)


KEEPERS = {
    "all": everything,
    "fields": only_fields,
    "index": only_index,
    "lines": only_lines,
    "matching": only_matching,
    "parts": only_parts,
    "variables": only_variables,
    "stanzas": only_stanzas,
}


def read_bus(reader):
    """NVIDIA's functions on the PCI bus, and the bridges above them."""
    base = "/sys/bus/pci/devices"
    nvidia, bridges = [], []
    for name in reader.names(base):
        here = base + "/" + name
        reader.see(here, last=False)
        reader.see(here)
        vendor, place = reader.data(here + "/vendor", 64)
        if vendor is None:
            continue
        if b"10de" in vendor.lower():
            reader.keep(place, vendor)
            nvidia.append(here)
        elif (reader.data(here + "/class", 64)[0] or b"").startswith(b"0x0604"):
            bridges.append(here)
    for here in nvidia:
        for part in DECLARED["bus"]:
            reader.read({"path": here + "/" + part, "limit": 4096})
        reader.see(here + "/driver", last=False)
    for here in bridges if len(nvidia) > 1 else []:
        for part in ("vendor", "class", "config"):
            reader.read({"path": here + "/" + part, "limit": 4096, "tail": True})


def read_libraries(reader):
    """The names of NVIDIA's libraries in every folder that programs load libraries from."""
    folders = list(DECLARED["library_folders"])
    for path in ["/etc/ld.so.conf"] + reader.glob("/etc/ld.so.conf.d/*.conf"):
        data = reader.data(path, 1 << 20)[0] or b""
        folders += [line.strip() for line in decoded(data).splitlines() if line.strip().startswith("/")]
    folders += [one for one in os.environ.get("LD_LIBRARY_PATH", "").split(":") if one.startswith("/")]
    for pattern in DECLARED["library_globs"]:
        folders += reader.glob(pattern, 60)
    starts = tuple(DECLARED["library_starts"])
    seen = set()
    for folder in folders:
        try:
            real = reader.resolve(folder)
        except Missing:
            continue
        if real in seen:
            continue
        seen.add(real)
        reader.see(folder)
        for name in reader.names(folder):
            if name.startswith(starts) and re.match(u"(?:" + DECLARED["library_names"] + u")\\Z", name):
                reader.see(folder.rstrip("/") + "/" + name, last=False)
                reader.see(folder.rstrip("/") + "/" + name)


def read_named_keys(reader):
    """Whether the key files are there that package sources name."""
    for here, entry in list(reader.entries.items()):
        if entry[0] == "t" and here.startswith(tuple(DECLARED["key_places"])):
            for path in re.findall(DECLARED["key_path"], entry[1]):
                reader.see(path)


def read_environments(reader):
    """Python environments: the folders of distributions that matter, and what they say about themselves."""
    active = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    prefixes = [one for one in active if one.startswith("/")]
    for folder in os.environ.get("PATH", "").split(":")[: DECLARED["prefixes"]]:
        if re.match("/.+/bin$", folder):
            prefixes.append(folder[: -len("/bin")])
    places = [path for one in prefixes for path in reader.glob(one + "/lib/python3*/site-packages")]
    for pattern in DECLARED["environments"]:
        places += reader.glob(pattern, 200)
    seen = set()
    for place in places:
        try:
            real = reader.resolve(place)
        except Missing:
            continue
        if real in seen or len(seen) > 400:
            continue
        seen.add(real)
        read_environment(reader, place)


def read_environment(reader, place):
    kept = re.compile(u"(?:" + DECLARED["distributions"] + u")\\Z", re.IGNORECASE)
    mine = [name for name in reader.names(place) if kept.match(name)]
    prefix = re.sub("/(?:lib|lib64)/python3[\\w.]*/(?:site|dist)-packages$", "", place)
    conda = re.compile(u"(?:" + DECLARED["conda"] + u")\\Z")
    records = [name for name in reader.names(prefix + "/conda-meta") if conda.match(name)]
    for name in records:
        reader.see(prefix + "/conda-meta/" + name)
    if not mine and not records:
        return
    for name in mine:
        reader.see(place + "/" + name)
        reader.read({"path": place + "/" + name + "/METADATA", "limit": 1 << 17, "tail": False, "keep": "fields"})
        reader.see(place + "/" + name + "/RECORD")
    reader.read({"path": prefix + "/pyvenv.cfg", "limit": 20000})
    for name in DECLARED["environment_texts"]:
        reader.read({"path": place + "/" + name, "limit": 20000})
    for folder in DECLARED["environment_libraries"]:
        for name in reader.names(place + "/" + folder):
            if name.startswith(tuple(DECLARED["library_starts"])):
                reader.see(place + "/" + folder + "/" + name, last=False)


def read_kernels(reader):
    """The driver's modules of each kernel; of a module only its end, with the signature."""
    for name in reader.names("/lib/modules")[-20:]:
        here = "/lib/modules/" + name
        reader.see(here)
        if reader.see(here + "/build", last=False):
            reader.see(here + "/build")
        has_module = False
        for folder in DECLARED["module_folders"]:
            for path in reader.glob(here + "/" + folder, 30):
                for module in reader.names(path):
                    if re.match(u"(?:nvidia|nouveau)\\.ko(?:\\.\\w+)?\\Z", module):
                        reader.see(path + "/" + module)
                        has_module = has_module or module.startswith("nvidia.ko")
                        if module == "nvidia.ko":
                            reader.read({"path": path + "/" + module, "limit": DECLARED["module_end"], "tail": True})
        if has_module:
            reader.read({"path": here + "/modules.dep", "limit": DECLARED["index"], "tail": True, "keep": "index"})


class Commands(object):
    """Runs commands with a limit of time and keeps their answers by their words."""

    def __init__(self):
        self.answers = {}
        self.programs = {}

    def program(self, name):
        folders = os.environ.get("PATH", os.defpath).split(":") + ["/usr/sbin", "/sbin"]
        for path in (folder + "/" + name for folder in folders):
            if os.access(path, os.X_OK):
                self.programs[name] = path
                return path
        return ""

    def run(self, argv, seconds=10, limit=1 << 22):
        if not self.program(argv[0]):
            return None
        environment = dict(os.environ, LC_ALL="C.UTF-8", LANGUAGE="C")
        with open(os.devnull, "rb") as nothing:
            try:
                process = subprocess.Popen(
                    argv, stdin=nothing, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
                )
            except OSError:
                return None
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            out, err = process.communicate()
        finally:
            timer.cancel()
        answer = {"code": process.returncode, "out": decoded(out[:limit]), "err": decoded(err[:4000])}
        self.answers[" ".join(argv)] = answer
        return answer


def ask(reader, commands):
    """What only the running machine can report."""
    for argv in DECLARED["commands"]:
        commands.run(argv)
    wanted = re.compile(u"(?:" + DECLARED["packages"] + u")\\Z")
    if reader.is_there("/usr/bin/rpm"):
        answer = commands.run(DECLARED["rpm"], 60, 1 << 24)
        if answer and answer["code"] == 0:
            lines = [line for line in answer["out"].splitlines() if wanted.match(line.split("\t")[0])]
            answer["out"] = u"".join(line + u"\n" for line in lines)
    for name, argv in sorted(DECLARED["logs"].items()):
        answer = commands.run(argv, 10)
        if answer:
            answer["out"] = only_lines(answer["out"].encode("utf-8"), {}).decode("utf-8", "replace")
    journals = reader.glob("/var/log/journal/*/system.journal", 40) + reader.glob("/run/log/journal/*/system.journal", 40)
    services = set()
    for folder in DECLARED["unit_folders"]:
        for name in reader.names(folder):
            if name.endswith(".service") and name[: -len(".service")] in DECLARED["units"]:
                reader.see(folder + "/" + name, last=False)
                services.add(name[: -len(".service")])
    for path in journals:
        reader.read({"path": path, "limit": 8, "tail": False})
    units = [one for one in DECLARED["units"] if one in services]
    if journals and units:
        answer = commands.run(DECLARED["journal"] + ["--unit=%s.service" % one for one in units])
        if answer:
            answer["out"] = only_lines(answer["out"].encode("utf-8"), {}).decode("utf-8", "replace")


def gather(root):
    reader, commands = Reader(root), Commands()
    machine = {}
    if not reader.root:
        ask(reader, commands)
        names = DECLARED["environ"]
        machine = {
            "release": os.uname()[2],
            "machine": os.uname()[4],
            "environ": dict((name, os.environ[name]) for name in names if name in os.environ),
            "path": os.environ.get("PATH", ""),
            "programs": commands.programs,
            "commands": commands.answers,
            "glibc": glibc(),
        }
    for rule in DECLARED["reads"]:
        reader.read(rule)
    for path, kept in sorted(DECLARED["listings"].items()):
        for folder in reader.glob(path):
            reader.listing(folder, kept)
    for path in DECLARED["links"]:
        reader.see(path, last=False)
        reader.see(path)
    for pattern in DECLARED["exists"]:
        for path in reader.glob(pattern, 40):
            reader.see(path, last=False)
            reader.see(path)
    read_bus(reader)
    read_kernels(reader)
    read_libraries(reader)
    read_named_keys(reader)
    read_environments(reader)
    return {"entries": reader.entries, "faults": reader.faults, "machine": machine}


def glibc():
    try:
        return decoded(os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (AttributeError, OSError, ValueError):
        return ""


def arguments():
    """The root to read: of Ansible's file of arguments, else the one word, else /."""
    if len(sys.argv) < 2:
        return "/"
    if os.path.isdir(sys.argv[1]):
        return sys.argv[1]
    with open(sys.argv[1]) as stream:
        return json.load(stream).get("root") or "/"


def main():
    try:
        found = gather(arguments())
        packed = zlib.compress(json.dumps(found, sort_keys=True).encode("utf-8"), 6)
        answer = {"changed": False, "evidence": base64.b64encode(packed).decode("ascii")}
    except Exception as exc:  # one line for the controller instead of a traceback
        answer = {"failed": True, "msg": "evidence cannot be gathered: %s: %s" % (type(exc).__name__, exc)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
