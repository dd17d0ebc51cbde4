"""A lost exit status is found in every spelling, and only where it matters."""

from __future__ import annotations

import pytest

from tests.inspect.inspected import PINNED, codes, inspected, of_run, of_script

BASH = 'SHELL ["/bin/bash", "-c"]\n'
PIPEFAIL = 'SHELL ["/bin/bash", "-o", "pipefail", "-c"]\n'

LOST_IN_A_RUN = {
    "a pipe into tee": "bash apply.sh 2>&1 | tee log",
    "a pipe into tee, then a semicolon": 'bash apply.sh | tee log ; echo "rc $?"',
    "a pipe with both streams": "bash -c 'python3 patch.py |& cat'",
    "a semicolon": "cp a.py /opt/ ; echo done",
    "or true": "cp a.py /opt/ || true",
    "or a colon": "python3 patch.py || :",
    "or an echo": "python3 patch.py || echo failed",
    "or a printf": "python3 patch.py || printf 'failed\\n'",
    "or exit 0": "python3 patch.py || exit 0",
    "or a group that only talks": "python3 patch.py || { echo failed; true; }",
    "or a subshell that only talks": "python3 patch.py || (echo failed >&2)",
    "and an echo or an echo": "python3 patch.py && echo good || echo bad",
    "the background": "python3 patch.py & echo started",
    "errors thrown away, then true": "cp a.py /opt/ 2>/dev/null || cp a.py /usr/ 2>/dev/null || true",
    "an if that only talks": "if ! python3 patch.py; then echo failed; fi",
    "an if without else": "if python3 patch.py; then echo good; fi",
    "an else that only talks": "if python3 patch.py; then echo good; else echo bad; fi",
    "a substitution in echo": "echo $(python3 patch.py)",
    "a substitution in export": "export X=$(python3 patch.py)",
    "backquotes in echo": "echo `python3 patch.py`",
    "a loop whose last round counts": "for f in 1 2; do python3 patch.py; done",
    "a negation": "! python3 patch.py",
    "a list whose failure is ignored": "cp a.py /opt/ && echo copied; echo end",
    "set -e taken back": "set -e; set +e; python3 patch.py; echo end",
    "set -e inside of a condition": "set -e; (python3 patch.py; echo end) || exit 1",
    "sh -c with a semicolon": "sh -c 'python3 patch.py; echo end'",
    "bash -c with true": 'bash -c "python3 patch.py || true"',
    "sudo and env before it": "sudo env A=b python3 patch.py || true",
    "a timeout before it": "timeout -k 5 60 python3 patch.py || true",
    "python by its path": "/usr/bin/python3.10 -u patch.py || true",
    "pip": "pip install ./x || true",
    "pip by its module": "python3 -m pip install --no-deps ./x || true",
    "patch": "patch -p1 --fuzz=0 < fix.patch || true",
    "git apply": "git apply fix.patch || true",
    "install": "install -m 644 a.py /opt/a.py || true",
    "a continued line": "cp a.py \\\n    /opt/ \\\n    || true",
    "a comment in a continued line": "cp a.py /opt/ \\\n# why\n || true",
    "find -exec": "find /w -name a.py -exec cp {} /opt/ \\;",
    "a case that only talks": "case x in x) cp a.py /opt/; echo end;; esac",
    "a status that is read and dropped": "python3 patch.py; rc=$?; echo $rc",
    "an if on the status that only talks": "python3 patch.py; if [ $? -ne 0 ]; then echo bad; fi",
    "a checksum": "sha256sum -c sums || true",
    "eval": 'eval "python3 patch.py; true"',
    "a here-document": "<<EOF\ncp a.py /opt/\necho end\nEOF",
    "an until that is left": "until python3 patch.py; do break; done",
    "a while not that is left": "while ! python3 patch.py; do echo no; break; done",
    "a status that is only asked whether it is 124": "timeout 60 bash apply.sh; rc=$?; [ $rc -eq 124 ] && exit 1; true",
    "another user's shell": "su -c 'python3 patch.py || true' root",
    "a recorded terminal": "script -c 'python3 patch.py' /dev/null",
    "env that splits a text": "env -S 'python3 -u patch.py' || true",
    "a runner of environments": "uv run python patch.py || true",
    "another runner of environments": "conda run -n x python3 patch.py || true",
    "a redirection into a package": "cat a.py > /usr/lib/python3/dist-packages/pkg/a.py || true",
    "tee into a package": "cat a.py | tee /usr/lib/python3/dist-packages/pkg/a.py || true",
    "dd": "dd if=a.py of=/opt/a.py || true",
    "a link": "ln -sf /w/s/a.py /opt/a.py || true",
    "awk in place": "awk -i inplace '{print}' /usr/lib/python3/dist-packages/pkg/a.py || true",
    "ed": "printf ',s/a/b/\\nw\\n' | ed /usr/lib/python3/dist-packages/pkg/a.py || true",
    "leave if it works, else only talk": "pip install ./x && exit 0; echo bad",
    "leave in an if, else only talk": "if pip install ./x; then exit 0; fi; echo bad",
    "a bash here-document": "bash <<EOF\ncp a.py /opt/\necho end\nEOF",
}


@pytest.mark.parametrize("shell", LOST_IN_A_RUN.values(), ids=LOST_IN_A_RUN)
def test_a_lost_status_is_found_in_a_run(shell: str) -> None:
    assert "E801" in of_run(shell)


KEPT_IN_A_RUN = {
    "one command": "cp a.py /opt/",
    "a chain": "cp a.py /opt/ && python3 patch.py && rm -f a.py",
    "set -e": "set -eux; cp a.py /opt/; python3 patch.py; echo end",
    "set -o errexit": "set -o errexit; cp a.py /opt/; echo end",
    "or exit 1": "python3 patch.py || exit 1; echo end",
    "or a group that ends": "python3 patch.py || { echo failed >&2; exit 3; }; echo end",
    "or false": "python3 patch.py || (echo failed; false)",
    "another try": "pip install ./x || pip install ./y",
    "a status that is handed on": 'python3 patch.py; rc=$?; echo "rc $rc"; exit $rc',
    "an if on the status that fails": "python3 patch.py; if [ $? -ne 0 ]; then exit 1; fi; echo end",
    "a test of the status": "python3 patch.py; [ $? -eq 0 ] || exit 1; echo end",
    "an if that fails": "if ! python3 patch.py; then echo failed; exit 1; fi",
    "an else that fails": "if python3 patch.py; then echo good; else exit 1; fi",
    "a failure that is counted": "n=0; python3 patch.py || n=1; cp a.py /opt/ || n=1; exit $n",
    "a background that is waited for": "set -e; python3 patch.py & p=$!; echo; wait $p",
    "a loop with an exit": "for f in 1 2; do python3 patch.py || exit 1; done",
    "a loop under set -e": "set -e; for f in 1 2; do python3 patch.py; done",
    "a substitution in an assignment": "set -e; X=$(python3 patch.py); echo $X",
    "the last of a pipe": "cat fix.patch | patch -p1 --fuzz=0",
    "an until loop": "until pip install ./x; do sleep 1; done",
    "grep or true": "grep -q x a.py || true",
    "rm or true": "rm a.py || true; apt-get clean || true; command -v x || true",
    "which or true": "which nvcc || true; ldconfig || true; mkdir /x || true; useradd x || true",
    "pip uninstall or true": "pip uninstall -y x || true; pip cache purge || true; pip list | cat",
    "a question in a condition": "if ! python3 -c 'import x'; then pip install ./x; fi",
    "a test left of a copy": "[ -f a.py ] && cp a.py /opt/",
    "find with a plus": "find /w -name a.py -exec cp -t /opt {} +",
    "sed of a settings file": "sed -i s/a/b/ /etc/x.conf || true",
    "an exit that is a failure anyway": "cp a.py /opt/; exit 1",
    "a pipe of questions": "ls | grep x | wc -l; echo end",
    "a here-document under set -e": "<<EOF\nset -e\ncp a.py /opt/\necho end\nEOF",
    "bash -e with a here-document": "bash -e <<EOF\ncp a.py /opt/\necho end\nEOF",
    "a loop that gives up with a failure": "until python3 patch.py; do n=x$n; [ $n = xxx ] && exit 1; sleep 1; done",
    "a status that is asked for a failure": "python3 patch.py; rc=$?; [ $rc -eq 1 ] && exit 1; [ $rc -eq 0 ]",
    "a recorded terminal that hands on": "script -e -c 'python3 patch.py' /dev/null",
    "a redirection into a log": "cat a.py > /tmp/log || true",
    "a link beside": "ln -s /usr/bin/python3 /usr/bin/python || true",
    "awk as a filter": "awk '{print}' a.py || true",
    "leave if it works, else something else": "pip install ./x && exit 0; pip install ./y",
    "leave in a group if it works": "set -e; pip install ./x && { echo good; exit 0; }; pip install ./y",
    "leave in an if": "if pip install ./x; then echo good; exit 0; fi; pip install ./y",
    "sh -ec": "sh -ec 'cp a.py /opt/; echo end'",
}


@pytest.mark.parametrize("shell", KEPT_IN_A_RUN.values(), ids=KEPT_IN_A_RUN)
def test_a_status_that_is_kept_or_means_little_is_no_finding(shell: str) -> None:
    assert [code for code in of_run(shell) if code in {"E801", "E803"}] == []


LOST_IN_A_SCRIPT = {
    "lines without set -e": "cp a.py /opt/a.py\necho done",
    "set +e": "set -e\nset +e\ncp a.py /opt/a.py\necho done",
    "exit 0 at the end": "cp a.py /opt/a.py\nexit 0",
    "a pipe without pipefail": "set -e\npython3 patch.py | tee log",
    "a function that only talks": "warn() { echo no; }\nset -e\ncp a.py /opt/a.py || warn",
    "a command in a function in a condition": "set -e\nf() { cp a.py /opt/a.py; echo end; }\nif f; then echo good; fi",
    "left of an and, under set -e": "set -e\ncp a.py /opt/a.py && echo copied\necho end",
    "local": "set -e\nf() { local x=$(python3 patch.py); echo $x; }\nf",
    "declare": "set -e\ndeclare x=$(python3 patch.py)\necho $x",
    "a process substitution": "set -e\nmapfile -t x < <(python3 patch.py)\necho end",
    "a bare wait": "set -e\npython3 patch.py &\nwait",
    "a trap that ends well": "set -e\ntrap 'exit 0' EXIT\ncp a.py /opt/a.py",
    "a trap on errors that ends well": "set -e\ntrap 'echo no; exit 0' ERR\ncp a.py /opt/a.py",
    "a loop over a glob": "for f in *.py; do cp $f /opt/; done",
    "a counted failure that nobody asks about": "n=0\ncp a.py /opt/ || n=1\necho end",
    "continue": "set -e\nfor f in a.py; do cp $f /opt/ || continue; done",
    "a file that is sourced": "cat > x.inc <<'E'\nE\n. ./apply.sh || true",
}


@pytest.mark.parametrize("text", LOST_IN_A_SCRIPT.values(), ids=LOST_IN_A_SCRIPT)
def test_a_lost_status_is_found_in_a_script(text: str) -> None:
    assert "E801" in of_script(text)


KEPT_IN_A_SCRIPT = {
    "set -e": "set -e\ncp a.py /opt/a.py\necho done\nexit 0",
    "set -euo pipefail with a pipe": "set -euo pipefail\npython3 patch.py | tee log\necho end",
    "a function that dies": 'die() { echo "$*" >&2; exit 1; }\ncp a.py /opt/a.py || die no\necho end',
    "local, then the assignment": "set -e\nf() { local x; x=$(python3 patch.py); echo $x; }\nf",
    "PIPESTATUS": "python3 patch.py | tee log\nexit ${PIPESTATUS[0]}",
    "PIPESTATUS kept": "python3 patch.py | tee log\nrc=${PIPESTATUS[0]}\n[[ $rc -eq 0 ]] || exit 1\necho end",
    "a trap that cleans": "set -e\ntrap 'rm -rf /tmp/x' EXIT\ncp a.py /opt/a.py",
    "arithmetic that counts": "n=0\ncp a.py /opt/ || ((n++))\nexit $n",
    "an and in an if": "set -e\nif [ -f a.py ] && [ -f b.py ]; then cp a.py /opt/; fi",
    "exit after a chain": "cp a.py /opt/a.py && python3 patch.py || exit 1\necho end",
}


@pytest.mark.parametrize("text", KEPT_IN_A_SCRIPT.values(), ids=KEPT_IN_A_SCRIPT)
def test_a_status_that_a_script_keeps_is_no_finding(text: str) -> None:
    assert [code for code in of_script(text) if code == "E801"] == []


def test_a_shebang_with_an_option_counts() -> None:
    assert "E801" not in of_script("cp a.py /opt/a.py\necho end", "#!/bin/bash -e")
    assert "E801" in of_script("cp a.py /opt/a.py\necho end", "#!/usr/bin/env bash")


def test_shell_says_which_options_a_run_starts_with() -> None:
    assert "E801" in of_run("bash apply.sh | tee log", sh=BASH)
    assert "E801" not in of_run("bash apply.sh | tee log", sh=PIPEFAIL)
    assert "E801" not in of_run("set -o pipefail; bash apply.sh | tee log", sh=BASH)
    assert "E801" not in of_run("cp a.py /opt/; echo end", sh='SHELL ["/bin/bash", "-euxo", "pipefail", "-c"]\n')


def test_pipestatus_does_not_exist_in_sh() -> None:
    assert {"E801", "E803"} <= set(of_run("bash apply.sh | tee log; exit ${PIPESTATUS[0]}"))
    assert not {"E801", "E803"} & set(of_run("bash apply.sh | tee log; exit ${PIPESTATUS[0]}", sh=BASH))


def test_the_exec_form_hides_nothing() -> None:
    assert of_run('["python3", "patch.py"]') == []
    assert "E801" in of_run('["/bin/sh", "-c", "python3 patch.py; echo end"]')


def test_a_download_behind_a_pipe_is_a_warning_where_its_reader_takes_nothing_for_good() -> None:
    found = inspected({"Dockerfile": f"{PINNED}RUN curl -fsSL https://x.example/i.sh | sh\n"}, python=None)
    assert [(d.code, str(d.severity)) for d in found] == [("E801", "warning")]
    assert codes(inspected({"Dockerfile": f"{PINNED}RUN curl -fsSL https://x.example/i.tgz | tar xz\n"})) == []


def test_what_a_container_starts_is_no_build_step() -> None:
    script = "#!/bin/sh\npython3 server.py &\nsleep 1\nexec python3 other.py\n"
    files = {"Dockerfile": f'{PINNED}COPY start.sh /start.sh\nENTRYPOINT ["/start.sh"]\n', "start.sh": script}
    assert codes(inspected(files)) == []
    files["start.sh"] = "#!/bin/sh\ncp /x/a.py /usr/lib/python3/dist-packages/p/a.py\nexec python3 other.py\n"
    assert codes(inspected(files)) == ["E801 start.sh"]


def test_a_patch_when_the_container_starts_matters() -> None:
    patch = "import vllm\nopen(vllm.__file__, 'w').write('x')\n"
    start = "CMD python3 /p.py; exec python3 -m vllm.server\n"
    files = {"Dockerfile": f"{PINNED}COPY p.py /p.py\n{start}", "p.py": patch}
    assert "E801 Dockerfile" in codes(inspected(files))
    files["p.py"] = "open('/tmp/x', 'w').write('x')\n"
    assert codes(inspected(files)) == []


def test_the_weightiest_round_of_a_loop_counts() -> None:
    files = {"p/a.py": "A = 1\n", "p/b.py": "import shutil\nshutil.copy('/a', '/b')\n"}
    files["Dockerfile"] = f"{PINNED}COPY p /p\nRUN for f in /p/*.py; do python3 $f; done\n"
    assert [str(d.severity) for d in inspected(files) if d.code == "E801"] == ["error"]
