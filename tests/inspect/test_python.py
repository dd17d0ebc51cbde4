"""Python: syntax for the image's version, replacements that miss, failures that are hidden."""

from __future__ import annotations

import pytest

from tests.inspect.inspected import PINNED, codes, inspected

HEAD = "from pathlib import Path\nP = Path('/usr/lib/python3/dist-packages/pkg/a.py')\n"


def of_patch(text: str, **more: str) -> list[str]:
    """Return the codes of a Python script that is run in a build."""
    files = {"patch.py": HEAD + text, "Dockerfile": f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN python3 patch.py\n", **more}
    return codes(inspected(files))


MISSED = {
    "replace alone": "P.write_text(P.read_text().replace('a', 'b'))\n",
    "replace of a variable": "s = P.read_text()\ns = s.replace('a', 'b')\nP.write_text(s)\n",
    "replace with open": (
        "with open(P) as f:\n    s = f.read()\ns = s.replace('a', 'b')\nwith open(P, 'w') as f:\n    f.write(s)\n"
    ),
    "replace where it is there": "s = P.read_text()\nif 'a' in s:\n    s = s.replace('a', 'b')\nP.write_text(s)\n",
    "a warning and on": (
        "s = P.read_text()\nif 'a' not in s:\n    print('warning')\nelse:\n    P.write_text(s.replace('a', 'b'))\n"
    ),
    "an answer that nobody takes": (
        "def sub(p, old, new):\n    s = p.read_text()\n"
        "    if old not in s:\n        print('no')\n        return False\n"
        "    p.write_text(s.replace(old, new))\n    return True\nsub(P, 'a', 'b')\n"
    ),
    "exit 0": "import sys\ns = P.read_text()\nif 'a' not in s:\n    sys.exit(0)\nP.write_text(s.replace('a', 'b'))\n",
    "re.sub": "import re\ns = P.read_text()\nP.write_text(re.sub('a+', 'b', s))\n",
    "a compiled pattern": "import re\nR = re.compile('a+')\ns = P.read_text()\nP.write_text(R.sub('b', s))\n",
    "pairs in a loop": (
        "s = P.read_text()\nfor old, new in [('a', 'b')]:\n    s = s.replace(old, new)\nP.write_text(s)\n"
    ),
    "a function for texts": "def fix(t):\n    return t.replace('a', 'b')\ns = P.read_text()\nP.write_text(fix(s))\n",
    "a loop over lines": (
        "lines = P.read_text().splitlines()\nout = []\n"
        "for line in lines:\n    if 'a' in line:\n        out.append('b')\n"
        "    out.append(line)\nP.write_text('\\n'.join(out))\n"
    ),
    "a position that nobody looks at": "s = P.read_text()\ni = s.find('a')\nP.write_text(s[:i] + 'b' + s[i:])\n",
    "fileinput": (
        "import fileinput\nfor line in fileinput.input(str(P), inplace=True):\n"
        "    print(line.replace('a', 'b'), end='')\n"
    ),
    "main whose answer nobody takes": (
        "def main():\n    s = P.read_text()\n    if 'a' not in s:\n        return 1\n"
        "    P.write_text(s.replace('a', 'b'))\nmain()\n"
    ),
    "bytes": "b = P.read_bytes()\nP.write_bytes(b.replace(b'a', b'b'))\n",
    "a walrus": "if 'a' in (s := P.read_text()):\n    P.write_text(s.replace('a', 'b'))\n",
    "an object that holds the text": (
        "class Patch:\n    def __init__(self, p):\n        self.s = p.read_text()\n"
        "    def sub(self, a, b):\n        self.s = self.s.replace(a, b)\n"
        "    def save(self, p):\n        p.write_text(self.s)\nx = Patch(P)\nx.sub('a', 'b')\nx.save(P)\n"
    ),
    "cut in two": "s = P.read_text()\nhead, _, tail = s.partition('a')\nP.write_text(head + 'b' + tail)\n",
    "split and join": "s = P.read_text()\nP.write_text('b'.join(s.split('a')))\n",
    "a lambda": "fix = lambda s: s.replace('a', 'b')\nP.write_text(fix(P.read_text()))\n",
    "subn whose count nobody reads": "import re\nP.write_text(re.subn('a', 'b', P.read_text())[0])\n",
    "a comprehension": (
        "lines = P.read_text().splitlines()\nout = ['b' if 'a' in line else line for line in lines]\n"
        "P.write_text('\\n'.join(out))\n"
    ),
    "lines that are left out": (
        "lines = P.read_text().splitlines()\nP.write_text('\\n'.join(x for x in lines if 'a' not in x))\n"
    ),
    "index whose error is caught": (
        "s = P.read_text()\ntry:\n    i = s.index('a')\nexcept ValueError:\n    print('no')\n"
        "else:\n    P.write_text(s[:i] + 'b')\n"
    ),
    "re under another name": "from re import sub as swap\nP.write_text(swap('a', 'b', P.read_text()))\n",
    "two in one line": "s = P.read_text()\nt = s.replace('a', 'b').replace('c', 'd')\nP.write_text(t)\n",
}


@pytest.mark.parametrize("text", MISSED.values(), ids=MISSED)
def test_a_replacement_that_a_missing_anchor_does_not_stop_is_found(text: str) -> None:
    assert "E830 patch.py" in of_patch(text)


STOPPED = {
    "raise": "s = P.read_text()\nif 'a' not in s:\n    raise SystemExit('no')\nP.write_text(s.replace('a', 'b'))\n",
    "assert": "s = P.read_text()\nassert 'a' in s\nP.write_text(s.replace('a', 'b'))\n",
    "a count": "s = P.read_text()\nif s.count('a') != 1:\n    raise ValueError\nP.write_text(s.replace('a', 'b'))\n",
    "a count in a variable": (
        "s = P.read_text()\nn = s.count('a')\nassert n == 1, n\nP.write_text(s.replace('a', 'b'))\n"
    ),
    "sys.exit(1)": (
        "import sys\ns = P.read_text()\nif 'a' not in s:\n    sys.exit(1)\nP.write_text(s.replace('a', 'b'))\n"
    ),
    "an else": (
        "import sys\ns = P.read_text()\nif 'a' in s:\n    P.write_text(s.replace('a', 'b'))\n"
        "else:\n    sys.exit('no')\n"
    ),
    "nothing changed": (
        "s = P.read_text()\nt = s.replace('a', 'b')\nif t == s:\n    raise ValueError\nP.write_text(t)\n"
    ),
    "subn": "import re\ns = P.read_text()\nt, n = re.subn('a+', 'b', s)\nassert n == 1\nP.write_text(t)\n",
    "search first": (
        "import re\ns = P.read_text()\nif not re.search('a+', s):\n    raise ValueError\n"
        "P.write_text(re.sub('a+', 'b', s))\n"
    ),
    "a position that is looked at": (
        "s = P.read_text()\ni = s.find('a')\nif i < 0:\n    raise ValueError\nP.write_text(s[:i] + 'b' + s[i:])\n"
    ),
    "main whose answer is the exit code": (
        "import sys\ndef main():\n    s = P.read_text()\n    if 'a' not in s:\n        return 1\n"
        "    P.write_text(s.replace('a', 'b'))\nsys.exit(main())\n"
    ),
    "a conditional expression": (
        "import sys\ns = P.read_text()\nP.write_text(s.replace('a', 'b') if 'a' in s else sys.exit('no'))\n"
    ),
    "index": "s = P.read_text()\ns.index('a')\nP.write_text(s.replace('a', 'b'))\n",
    "pairs in a loop": (
        "s = P.read_text()\nfor old, new in [('a', 'b')]:\n    if old not in s:\n        raise ValueError(old)\n"
        "    s = s.replace(old, new)\nP.write_text(s)\n"
    ),
    "an answer that is taken": (
        "import sys\ndef sub(p, old, new):\n    s = p.read_text()\n    if old not in s:\n        return False\n"
        "    p.write_text(s.replace(old, new))\n    return True\nif not sub(P, 'a', 'b'):\n    sys.exit(1)\n"
    ),
    "a helper that dies": (
        "def need(s, old):\n    if old not in s:\n        raise ValueError\ns = P.read_text()\nneed(s, 'a')\n"
        "P.write_text(s.replace('a', 'b'))\n"
    ),
    "a list of what failed": (
        "import sys\nbad = []\ns = P.read_text()\nif 'a' not in s:\n    bad.append('a')\n"
        "P.write_text(s.replace('a', 'b'))\n"
        "if bad:\n    sys.exit(f'no: {bad}')\n"
    ),
    "a look at the result": ("s = P.read_text().replace('a', 'b')\nP.write_text(s)\nassert 'b' in P.read_text()\n"),
    "one of several": (
        "def one(p, pairs):\n    s = p.read_text()\n    for old, new in pairs:\n        if old in s:\n"
        "            p.write_text(s.replace(old, new))\n            return\n"
        "    raise ValueError\none(P, [('a', 'b')])\n"
    ),
    "a name and no file": "n = str(P).replace('.py', '')\nprint(n)\nP.write_text('x')\n",
    "cut in two, and looked at": (
        "s = P.read_text()\nhead, found, tail = s.partition('a')\nassert found\nP.write_text(head + 'b' + tail)\n"
    ),
    "lines that are only read": (
        "n = [x for x in P.read_text().splitlines() if 'def' in x]\nprint(len(n))\nP.write_text('x')\n"
    ),
    "index whose error ends the script": (
        "import sys\ns = P.read_text()\ntry:\n    i = s.index('a')\nexcept ValueError:\n    sys.exit('no')\n"
        "P.write_text(s[:i] + 'b')\n"
    ),
    "lines with a flag": (
        "lines = P.read_text().splitlines()\nout, hit = [], False\nfor line in lines:\n    if 'a' in line:\n"
        "        out.append('b')\n        hit = True\n    out.append(line)\nassert hit\nP.write_text('\\n'.join(out))\n"
    ),
}


@pytest.mark.parametrize("text", STOPPED.values(), ids=STOPPED)
def test_a_replacement_that_is_checked_is_no_finding(text: str) -> None:
    assert [code for code in of_patch(text) if code.startswith("E830")] == []


HIDDEN = {
    "except and pass": "try:\n    P.write_text('x')\nexcept Exception:\n    pass\n",
    "except and print": "try:\n    P.write_text('x')\nexcept Exception as e:\n    print('failed', e)\n",
    "a bare except": "import shutil\ntry:\n    shutil.copy('/a', '/b')\nexcept:\n    print('no')\n",
    "sys.exit(0)": "import sys\ntry:\n    P.write_text('x')\nexcept OSError:\n    sys.exit(0)\n",
    "main in a try": "def main():\n    P.write_text('x')\ntry:\n    main()\nexcept Exception as e:\n    print(e)\n",
    "suppress": "import contextlib\nwith contextlib.suppress(Exception):\n    P.write_text('x')\n",
    "run without check": "import subprocess\nsubprocess.run(['cp', '/a', '/b'])\n",
    "call that nobody reads": "import subprocess\nsubprocess.call(['cp', '/a', '/b'])\n",
    "os.system": "import os\nos.system('cp /a /b')\n",
    "a result that nobody reads": "import subprocess\nr = subprocess.run(['cp', '/a', '/b'])\nprint(r)\n",
    "a return code that is only printed": (
        "import subprocess\nr = subprocess.run(['cp', '/a', '/b'])\nif r.returncode != 0:\n    print('failed')\n"
    ),
    "a status that is only printed": "import os\nrc = os.system('cp /a /b')\nif rc:\n    print('failed')\n",
    "another name for it": "from subprocess import run as r\nr(['cp', '/a', '/b'])\n",
    "another name for the module": "import subprocess as sp\nsp.call('cp /a /b', shell=True)\n",
    "Popen and wait": "import subprocess\nsubprocess.Popen(['cp', '/a', '/b']).wait()\n",
    "Popen and communicate": "import subprocess\np = subprocess.Popen(['cp', '/a', '/b'])\nout = p.communicate()\n",
    "getoutput": "import subprocess\nsubprocess.getoutput('cp /a /b')\n",
    "os.popen": "import os\nos.popen('cp /a /b').read()\n",
    "os.spawn": "import os\nos.spawnlp(os.P_WAIT, 'cp', 'cp', '/a', '/b')\n",
    "asyncio": (
        "import asyncio\nasync def m():\n    p = await asyncio.create_subprocess_exec('cp', '/a', '/b')\n"
        "    await p.wait()\nasyncio.run(m())\n"
    ),
    "a thread": "import threading\nthreading.Thread(target=lambda: P.write_text('x')).start()\n",
    "a finally that returns": "def f():\n    try:\n        P.write_text('x')\n    finally:\n        return 0\nf()\n",
    "a finally that ends well": "import sys\ntry:\n    P.write_text('x')\nfinally:\n    sys.exit(0)\n",
    "suppress as a decorator": (
        "import contextlib\n@contextlib.suppress(Exception)\ndef f():\n    P.write_text('x')\nf()\n"
    ),
    "suppress under another name": (
        "from contextlib import suppress as quiet\nwith quiet(OSError):\n    P.write_text('x')\n"
    ),
    "an output that is taken of what changes files": (
        "import subprocess\ntry:\n    o = subprocess.check_output(['git', 'apply', '/p'])\nexcept OSError:\n"
        "    o = ''\n"
    ),
    "a shell whose output is taken": (
        "import subprocess\ntry:\n    o = subprocess.check_output('cp /a /b; true', shell=True)\nexcept OSError:\n"
        "    o = ''\n"
    ),
    "runpy": "import runpy\ntry:\n    runpy.run_path('/w/patch.py')\nexcept Exception:\n    pass\n",
    "check=False": "import subprocess\nsubprocess.run(['cp', '/a', '/b'], check=False)\n",
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_a_hidden_failure_is_found(text: str) -> None:
    assert "E802 patch.py" in of_patch(text)


SHOWN = {
    "raise": "try:\n    P.write_text('x')\nexcept Exception as e:\n    print(e)\n    raise\n",
    "sys.exit(1)": "import sys\ntry:\n    P.write_text('x')\nexcept Exception as e:\n    sys.exit(1)\n",
    "an import guard": "try:\n    import tomllib\nexcept ImportError:\n    tomllib = None\nP.write_text('x')\n",
    "nothing that matters": (
        "import json\ntry:\n    v = json.loads('1')\nexcept ValueError:\n    v = 0\nP.write_text('x')\n"
    ),
    "check=True": "import subprocess\nsubprocess.run(['cp', '/a', '/b'], check=True)\n",
    "check_call": "import subprocess\nsubprocess.check_call(['cp', '/a', '/b'])\n",
    "a return code that counts": (
        "import subprocess, sys\nr = subprocess.run(['cp', '/a', '/b'])\nif r.returncode:\n    sys.exit(1)\n"
    ),
    "sys.exit of it": "import subprocess, sys\nsys.exit(subprocess.call(['cp', '/a', '/b']))\n",
    "the answer of wait": (
        "import subprocess, sys\np = subprocess.Popen(['cp', '/a', '/b'])\nif p.wait():\n    sys.exit(1)\n"
    ),
    "a server of its own": ("import subprocess\np = subprocess.Popen(['serve'])\nP.write_text('x')\np.terminate()\n"),
    "a function of one's own of that name": "def run(a):\n    print(a)\nrun(['cp'])\nP.write_text('x')\n",
    "a harmless command": "import subprocess\nsubprocess.run(['rm', '-f', '/b'])\nP.write_text('x')\n",
    "a list of libraries that is asked for": (
        "import subprocess\ntry:\n    o = subprocess.check_output(['ldconfig', '-p'])\nexcept Exception:\n    o = ''\n"
    ),
    "a version that is asked for": (
        "import subprocess\ntry:\n    o = subprocess.run(['nvcc', '-V'], capture_output=True)\n"
        "except OSError:\n    o = None\n"
    ),
    "what programs are asked": (
        "import subprocess\ntry:\n    o = subprocess.check_output(['git', 'rev-parse', 'HEAD'])\n"
        "    o = subprocess.check_output([H + '/bin/nvcc', '-V'])\nexcept OSError:\n    o = ''\n"
    ),
    "a failure that is counted": (
        "import sys\nbad = 0\ntry:\n    P.write_text('x')\nexcept OSError:\n    bad += 1\nsys.exit(bad)\n"
    ),
}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_a_failure_that_is_shown_is_no_finding(text: str) -> None:
    assert [code for code in of_patch(text) if code.startswith("E802")] == []


SYNTAX = {
    "a newline in a string": ("s = 'a\nb'\n", (3, 10)),
    "a bracket that is not closed": ("f(1\n", (3, 10)),
    "match in 3.9": ("match 1:\n    case 1:\n        pass\n", (3, 9)),
    "except* in 3.10": ("try:\n    pass\nexcept* OSError:\n    pass\n", (3, 10)),
    "a return outside of a function": ("return 1\n", (3, 10)),
    "one parameter twice": ("def f(a, a):\n    pass\n", (3, 10)),
    "a star in an index in 3.10": ("x = a[*b]\n", (3, 10)),
}


@pytest.mark.parametrize(("text", "version"), SYNTAX.values(), ids=SYNTAX)
def test_python_that_the_image_cannot_read_is_found_in_scripts_and_in_what_they_deploy(
    text: str, version: tuple[int, int]
) -> None:
    files = {"x.py": text, "y.py": text, "Dockerfile": f"{PINNED}WORKDIR /w\nCOPY . /w\n"}
    files["Dockerfile"] += "RUN cp y.py /usr/lib/python3/dist-packages/p/y.py && python3 x.py\n"
    assert codes(inspected(files, python=version)) == ["E820 x.py", "E820 y.py"]


def test_python_that_the_image_reads_is_no_finding() -> None:
    files = {"x.py": "match 1:\n    case 1:\n        print(f'{1!r:>{2}}')\n"}
    files["Dockerfile"] = f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN python3 x.py\n"
    assert codes(inspected(files, python=(3, 10))) == []


def test_the_version_is_that_of_the_image_s_name() -> None:
    files = {"x.py": "match 1:\n    case 1:\n        pass\n"}
    for base, expected in (("python:3.9-slim", ["E820 x.py"]), ("python:3.10", []), ("v/py3.9-llm:1", ["E820 x.py"])):
        files["Dockerfile"] = f"FROM {base}\nWORKDIR /w\nCOPY . /w\nRUN python3 x.py\n"
        assert [c for c in codes(inspected(files, python=None)) if c != "W816 Dockerfile"] == expected


def test_the_second_worked_example_lists_every_broken_file() -> None:
    files = {"a.py": "x = 'one\ntwo'\n", "b.py": "def f(:\n    pass\n"}
    files["Dockerfile"] = f"{PINNED}WORKDIR /w\nCOPY . /w\nRUN python3 a.py && python3 b.py\n"
    places = [(d.place.file, d.place.line, d.place.column) for d in inspected(files) if d.place]
    assert places == [("a.py", 1, 5), ("b.py", 1, 7)]


def test_python_in_a_here_document_is_read_at_its_place() -> None:
    files = {"Dockerfile": f"{PINNED}RUN python3 - <<'PY'\nx = 1\ny = (\nPY\n"}
    assert [(d.code, d.place.line) for d in inspected(files) if d.place] == [("E820", 4)]
    files = {"Dockerfile": f"{PINNED}RUN <<'PY' python3\nx = 1\ny = (\nPY\n"}
    assert [d.code for d in inspected(files)] == ["E820"]
