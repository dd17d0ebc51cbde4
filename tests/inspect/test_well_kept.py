"""Well-kept Dockerfiles are no findings: reduced to what is peculiar about them, in words of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.inspect.inspected import PINNED, codes, inspected
from tests.workspaces import ROOT, Workspace
from tests.workspaces import run_cli as run_in

if TYPE_CHECKING:
    from pathlib import Path

WELL_KEPT = {
    "a build from source with a checked download": """\
RUN set -eux; \\
    savedMark="$(apt-mark showmanual)"; \\
    apt-get update; \\
    apt-get install -y --no-install-recommends gcc wget; \\
    arch="$(dpkg --print-architecture)"; arch="${arch##*-}"; \\
    wget -O src.tar.xz "https://x.example/$VERSION/src.tar.xz"; \\
    echo "$SHA256 *src.tar.xz" | sha256sum -c -; \\
    GNUPGHOME="$(mktemp -d)"; export GNUPGHOME; \\
    gpg --batch --verify src.asc src.tar.xz; \\
    mkdir -p /usr/src/x; \\
    tar --extract --directory /usr/src/x --strip-components=1 --file src.tar.xz; \\
    cd /usr/src/x; \\
    nproc="$(nproc)"; \\
    make -j "$nproc"; make install; \\
    find /usr/local -depth \\( -type d -a -name test \\) -exec rm -rf '{}' +; \\
    find /usr/local -type f -executable -exec ldd '{}' ';' \\
        | awk '/=>/ { print $1 }' | sort -u | xargs -r dpkg-query --search | cut -d: -f1 | sort -u \\
        | xargs -r apt-mark manual; \\
    apt-get purge -y --auto-remove; \\
    x --version
""",
    "links that may be there": """\
RUN set -eux; \\
    for src in idle3 pip3 python3; do \\
        dst="$(echo "$src" | tr -d 3)"; \\
        [ -s "/usr/local/bin/$src" ]; \\
        [ ! -e "/usr/local/bin/$dst" ]; \\
        ln -svT "$src" "/usr/local/bin/$dst"; \\
    done
""",
    "settings that are looked at": """\
RUN set -eux; \\
    sed -ri "s!^#?(listen)\\s*=\\s*\\S+.*!\\1 = '*'!" /usr/share/x.conf; \\
    grep -F "listen = '*'" /usr/share/x.conf
""",
    "a search over key servers": """\
RUN set -e; \\
    for server in hkp://a.example hkp://b.example; do \\
        gpg --keyserver "$server" --recv-keys "$KEY" && found=yes && break; \\
    done; \\
    test -z "$found" && echo >&2 "no key" && exit 1; \\
    rm -rf /tmp/x
""",
    "two keyservers, one of which must do": "RUN gpg --recv-keys A || gpg --keyserver b.example --recv-keys A\n",
    "a platform at a time": """\
RUN case "$TARGETARCH" in amd64) A=x86_64;; arm64) A=aarch64;; *) echo "no" >&2; exit 1;; esac \\
    && curl -fsSL "https://x.example/$A.tgz" | tar xz -C /usr/local
""",
    "bind mounts and caches": """\
RUN --mount=type=bind,source=app,target=/src,rw --mount=type=cache,target=/root/.cache \\
    cd /src && pip install --no-index ./ && cp -r /src/a.py /opt/
""",
    "an entry point that gives way": """\
COPY start.sh /usr/local/bin/
ENTRYPOINT ["start.sh"]
CMD ["server"]
""",
    "an application with its requirements": """\
WORKDIR /app
COPY requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt
COPY app ./
RUN python -m compileall -q . || true
CMD ["python", "a.py"]
""",
    "stages that hand on": """\
RUN mkdir -p /out && cp /etc/hostname /out/
FROM scratch AS last
COPY --from=0 /out/ /
COPY --from=busybox:uclibc /bin/sh /bin/
""",
}
FILES = {"app/a.py": "A = 1\n", "requirements.txt": "x==1\n", "start.sh": '#!/bin/sh\nset -e\nexec "$@"\n'}


@pytest.mark.parametrize("text", WELL_KEPT.values(), ids=WELL_KEPT)
def test_a_well_kept_dockerfile_is_no_finding(text: str) -> None:
    assert codes(inspected({**FILES, "Dockerfile": PINNED + text})) == []


def test_what_we_render_has_a_note_about_its_base_at_most(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    assert workspace.run("render").code == 0
    ended = run_in("inspect", str(workspace.folder / "build"), "--json", cwd=tmp_path)
    assert ended.code == 0
    assert {record["severity"] for record in ended.records()} <= {"note"}


@pytest.mark.parametrize("folder", ["templates", "orchestrator/emit/starter/templates"])
def test_our_templates_are_no_findings(folder: str) -> None:
    ended = run_in("inspect", str(ROOT / folder), "--dockerfile", "Dockerfile.j2", "--json", cwd=ROOT)
    assert [record["code"] for record in ended.records()] == ["W890"]
