"""What the fuzzing starts from: real pipelines, real Python, Dockerfiles, scripts, and archives made here."""

from __future__ import annotations

import functools
import gzip
import io
import lzma
import re
import sysconfig
import tarfile
import zipfile
from pathlib import Path

from tests.inspect.test_python import HEAD as SCRIPT_HEAD
from tests.inspect.test_python import MISSED
from tests.inspect.test_well_kept import WELL_KEPT
from tests.origin.images import FOLDER, Member, docker_save, hard, layer, link, oci
from tests.workspaces import HEAD, LIMIT_STAGE, ROOT

STDLIB = Path(sysconfig.get_path("stdlib"))


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


@functools.cache
def pipelines() -> tuple[str, ...]:
    """Return the real pipelines as many small ones: the head with one stage each, which
    needs no other, so that an input costs little and is nearly valid."""
    found = [f"{HEAD}{LIMIT_STAGE}", _text(ROOT / "orchestrator/emit/starter/pipeline.yaml")]
    for path in (ROOT / "pipeline.yaml", ROOT / "examples/corex-replica/pipeline.yaml"):
        head, *stages = re.split(r"(?m)^(?=  - id: )", _text(path))
        found += [head + re.sub(r"(?m)^    (needs|when|variants): .*\n", "", stage) for stage in stages]
    return tuple(found)


@functools.cache
def targets() -> tuple[str, ...]:
    """Return the real targets."""
    return tuple(_text(path) for path in sorted((ROOT / "targets").glob("*.yaml")))


@functools.cache
def sources() -> tuple[str, ...]:
    """Return real Python files of moderate size: of this package, of its golden stages, of the standard library."""
    folders = [ROOT / "orchestrator", ROOT / "tests/golden", ROOT / "kernels"]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))] + sorted(STDLIB.glob("*.py"))
    small = [path for path in paths if 200 < path.stat().st_size < 30_000]
    return tuple(_text(path) for path in small)


@functools.cache
def codes() -> tuple[str, ...]:
    """Return the code that the real pipelines and their tests write into `match:` and `with:`."""
    found = []
    for text in pipelines():
        found += re.findall(r"(?m)^\s+(?:match|with|code|pattern|value|anchor|name): ?(?:\|-?\n)?(.+)$", text)
    more = [
        "f(${x...}, k=${v})",
        "def ${f}(${p...}): ${b...}",
        "if ${c}:\n    ${b...}",
        "a()\n${m...}\nb()",
        "BLOCK = ${a} if ${cond} else ${b}",
        "try:\n    ${a...}\nexcept ${E} as e:\n    raise",
        "match ${x}:\n    case [1, *rest]:\n        pass",
        "async with a as b, c: await d",
        "@${d}\nclass A(B, metaclass=C):\n    x: int = 1",
        "f'{a!r:>{w}}' + ${s}",
        "lambda *a, **k: (yield)",
    ]
    return tuple(dict.fromkeys([*found, *more]))


@functools.cache
def dockerfiles() -> tuple[str, ...]:
    """Return well-kept Dockerfiles and our own."""
    return (*WELL_KEPT.values(), _text(ROOT / "templates/Dockerfile.j2"))


SCRIPTS = (
    """\
#!/bin/bash
set -euo pipefail
cd /w
for f in a.py b.py; do
  python3 "$f" || { echo no; exit 1; }
done
""",
    """\
set -e
if [ ! -f a.py ]; then cp a.py /opt/a.py 2>/dev/null || true; fi
patch -p1 < x.patch | tee log; echo "$?"
""",
    """\
f() { local x=$1; sed -i "s/a/$x/" /opt/a.py; }
f b & wait
cat <<'EOF' > /opt/b.py
import a
EOF
trap 'rm x' EXIT
""",
    """\
case $1 in
  a|b) git apply --check p && git apply p ;;
  *) while read -r l; do python3 - "$l" <<E
x
E
 done < l ;;
esac
""",
    """\
ROOT=${ROOT:-$(python3 -c 'import vllm; print(vllm.__path__[0])')}
cp -r src/* "$ROOT/"
find . -name '*.py' -exec cp {} /x \\;
""",
)


def scripts() -> tuple[str, ...]:
    """Return Python patch scripts, as people write them."""
    return (*(SCRIPT_HEAD + text for text in MISSED.values()), _LOOP, _MARKER)


_LOOP = """\
import re, shutil, sys
from pathlib import Path
root = Path('/opt/lib/pkg')


def patch(name, old, new):
    path = root / name
    text = path.read_text()
    if old not in text:
        print('no anchor')
        return False
    path.write_text(text.replace(old, new, 1))
    return True


for one, a, b in [('a.py', 'x = 1', 'x = 2'), ('b.py', 'y', 'z')]:
    try:
        patch(one, a, b)
    except Exception as e:
        print(e)
shutil.copy('new.py', root / 'new.py')
sys.exit(0)
"""
_MARKER = """\
import re
with open('/opt/lib/pkg/a.py') as f:
    s = f.read()
if '# PATCHED' not in s:
    s = '# PATCHED\\n' + s
    s = re.sub(r'HAS = \\w+', 'HAS = True', s)
open('/opt/lib/pkg/a.py', 'w').write(s)
"""


MEMBERS: dict[str, Member] = {
    "opt": FOLDER,
    "opt/lib/pkg": FOLDER,
    "opt/lib/pkg/__init__.py": b"",
    "opt/lib/pkg/a.py": b"LIMIT = 4\n\n\ndef f(x):\n    return x + LIMIT\n",
    "opt/lib/pkg/sub/b.py": b"B = 1\n" * 200,
    "opt/lib/pkg/link.py": link("a.py"),
    "opt/lib/pkg/hard.py": hard("opt/lib/pkg/a.py"),
    "opt/lib/pkg/out.py": link("/etc/passwd"),
    "opt/lib/pkg/up": link(".."),
    "opt/lib/pkg/loop": link("loop"),
    "opt/lib64": link("lib"),
    "opt/lib/pkg/" + "n" * 120 + ".py": b"N = 1\n",
    "etc/passwd": b"root",
}


def _formatted(form: int, headers: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for name, content in MEMBERS.items():
            member = tarfile.TarInfo(name)
            member.pax_headers = dict(headers) if form == tarfile.PAX_FORMAT else {}
            if isinstance(content, tuple):
                member.type, member.linkname = content
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return packed.getvalue()


def sparse_old() -> bytes:
    """Return a tar with a sparse file as GNU tar writes it: eight bytes of data, a gigabyte of holes."""
    head = tarfile.TarInfo("opt/lib/pkg/sparse.py")
    head.type, head.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(head.tobuf(tarfile.GNU_FORMAT))
    for number, (offset, size) in enumerate([(0, 8), (2**30, 504)]):
        at = 386 + number * 24
        block[at : at + 12] = b"%011o\0" % offset
        block[at + 12 : at + 24] = b"%011o\0" % size
    block[483:495] = b"%011o\0" % (2**30 + 504)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + b"x" * 512 + layer(MEMBERS)


def sparse_new() -> bytes:
    """Return a tar with a sparse file in the manner of POSIX: its map stands in the data."""
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1073741824"}
    content = b"2\n0\n8\n1073741816\n8\n".ljust(512, b"\0") + b"x" * 16
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("opt/lib/pkg/sparse.py")
        member.size, member.pax_headers = len(content), {**headers, "GNU.sparse.name": "opt/lib/pkg/s.py"}
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()[: archive.offset - 1024] + layer(MEMBERS)


def _zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in MEMBERS.items():
            if isinstance(content, bytes):
                archive.writestr(name, content)
    return packed.getvalue()


@functools.cache
def archives() -> tuple[bytes, ...]:
    """Return archives of every kind that is read, whole."""
    plain = layer(MEMBERS)
    layers = [plain, layer({"opt/lib/pkg/a.py": b"LIMIT = 5\n", "opt/lib/pkg/.wh.sub": b""})]
    index = layer(oci(layers))
    return (
        plain,
        gzip.compress(plain),
        gzip.compress(gzip.compress(plain)),
        lzma.compress(plain),
        index,
        layer(oci(layers, packed=False)),
        gzip.compress(index),
        layer(oci([index])),  # an image in an image
        layer(oci([gzip.compress(plain)])),  # packed twice
        docker_save(layers),
        _zipped(),
        sparse_old(),
        sparse_new(),
        _formatted(tarfile.GNU_FORMAT, {}),
        _formatted(tarfile.PAX_FORMAT, {"mtime": "1.5", "comment": "é" * 300}),
        _formatted(tarfile.PAX_FORMAT, {"size": "99999999999"}),
    )
