# SPDX-License-Identifier: Apache-2.0
"""hlo-remat-opt as a process: exit codes, pipes and files. What it prints is tested in test/lit."""

import dataclasses
import os
import subprocess
import sys

import pytest
from jaxlib.mlir import ir

from hlo_remat import passes
from hlo_remat.diagnostics import note
from hlo_remat.passes.base import Pass
from hlo_remat.tools import opt

GOOD = "func.func private @f()\n"
BAD = "func.func @f() {\n  func.call @g() : () -> ()\n  return\n}\n"
BIG = "".join(f"func.func private @f{i}() attributes {{a = {i}}}\n" for i in range(20_000))


def tool(*arguments, stdin=GOOD, **options):
    command = [sys.executable, "-m", "hlo_remat.tools.opt", *map(str, arguments)]
    data = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(command, input=data, capture_output=True, check=False, **options)


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        ([], GOOD, 0),
        (["--help"], "", 0),
        (["--version"], "", 0),
        (["--list-passes"], "", 0),
        ([], BAD, 1),
        (["no-such-file.mlir"], "", 1),
        (["-o", "no-such-folder/file"], GOOD, 1),
        (["--verify-diagnostics"], GOOD, 0),
        (["--verify-diagnostics"], BAD, 1),
        (["-p", "builtin.module(nope)"], GOOD, 2),
        (["-p", ""], GOOD, 2),
        (["--nope"], GOOD, 2),
        (["--verify-diagnostics=nope"], GOOD, 2),
        (["-o"], GOOD, 2),
    ],
)
def test_exit_codes(arguments, stdin, code):
    result = tool(*arguments, stdin=stdin)
    assert result.returncode == code
    assert (result.stdout == b"") == (code != 0), "IR on stdout only without errors"
    assert (result.stderr == b"") == (code == 0)
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    "data",
    [
        b"garbled",
        b"\xff\xfe\x00\x01",
        b"ML\xefR",
        b"ML\xefR\x0dMLIR99\x00" + bytes(range(200)),
        b"ML\xefR\x0dStableHLO_v99.0.0\x00" + bytes(range(200)),
        b'func.func @f() { func.call @"\xff\xe9"() : () -> () return }',
        b'func.func @f() { func.call @g() : () -> () loc("\xff":1:2) return }',
        b'func.func @f() { func.call @g() : () -> () loc("\\FF") return }',
        b"func.func @f() { func.call @g() : () -> () loc(unknown) return }",
    ],
)
def test_bad_input_is_a_diagnostic(data):
    result = tool(stdin=data)
    assert result.returncode == 1
    assert b" error: " in result.stderr
    assert b"Traceback" not in result.stderr
    assert result.stdout == b""


def test_bytecode_cut_anywhere_is_a_diagnostic(tmp_path, capfd):
    text, whole, cut = (tmp_path / name for name in ("a.mlir", "a.mlirbc", "cut.mlirbc"))
    text.write_text(GOOD)
    assert opt.main([str(text), "--emit-bytecode", "-o", str(whole)]) == 0
    data = whole.read_bytes()
    for length in range(4, len(data), 7):
        cut.write_bytes(data[:length])
        assert opt.main([str(cut)]) == 1
        assert "cut.mlirbc:0:0: error: " in capfd.readouterr().err


def test_names_that_are_not_utf8_survive():
    result = tool(stdin=b'func.func private @"\xff"()')
    assert (result.returncode, result.stdout.count(rb'@"\FF"')) == (0, 1)


@pytest.mark.parametrize("arguments", [["--cse"], ["--cse", "--mlir-print-ir-after-all"]])
def test_a_reader_may_close_the_pipe(arguments):
    command = [sys.executable, "-m", "hlo_remat.tools.opt", *arguments]
    read, write = os.pipe()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE
    ) as process:
        os.close(read)
        os.close(write)
        _, errors = process.communicate(BIG.encode())
    assert process.returncode == 1
    assert b"Traceback" not in errors
    assert b"Broken pipe" not in errors


def test_a_full_disk_is_an_error():
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "hlo_remat.tools.opt"]
        result = subprocess.run(
            command, input=GOOD.encode(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert result.returncode == 1
    assert result.stderr == (
        b"hlo-remat-opt: error: cannot open output file '-': No space left on device\n"
    )


def test_output_keeps_the_mode_and_the_link_of_a_file(tmp_path):
    real, link = tmp_path / "real.mlir", tmp_path / "link.mlir"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert tool("-o", link).returncode == 0
    assert link.is_symlink()
    assert "@f" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.mlir", "real.mlir"]


def test_jax_is_not_imported():
    check = "import sys, hlo_remat.tools.opt; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_input_is_not_reread_from_a_pipe(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "hlo_remat.tools.opt", fifo]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        fifo.write_text(GOOD)
        output, _ = process.communicate()
    assert b"@f" in output


@dataclasses.dataclass(frozen=True)
class Talks(Pass):
    """Says something of each kind about the first operation."""

    name = "talks"

    def run(self, module, diagnostics):
        at = module.body.operations[0].location
        diagnostics.remark(at, "a remark")
        diagnostics.warning(at, "a warning", [note(at, "a note")])
        if "fail" in str(module):
            diagnostics.error(at, "an error")


@pytest.fixture
def talks(monkeypatch, tmp_path):
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, Talks))

    def run(text, *arguments):
        file = tmp_path / "input.mlir"
        file.write_text(text)
        return opt.main([str(file), "--talks", *arguments])

    return run


def test_what_a_pass_says_is_shown_with_its_line(talks, capfd, tmp_path):
    assert talks("\tfunc.func private @fine()") == 0
    output, errors = capfd.readouterr()
    at = f"{tmp_path}/input.mlir:1:2"
    quoted = "\tfunc.func private @fine()\n\t^\n"
    assert errors == (
        f"{at}: remark: a remark\n{quoted}{at}: warning: a warning\n{quoted}"
        f"{at}: note: a note\n{quoted}"
    )
    assert "@fine" in output


def test_an_error_of_a_pass_leaves_no_output(talks, capfd):
    assert talks("func.func private @fail()") == 1
    output, errors = capfd.readouterr()
    assert "error: an error" in errors
    assert output == ""


EXPECTED = """
// expected-remark @below {{a remark}}
// expected-warning @below {{a warning}}
// expected-note @below {{a note}}
"""


def test_verify_diagnostics_sees_what_a_pass_says(talks, capfd):
    assert talks(f"{EXPECTED}func.func private @fine()", "--verify-diagnostics") == 0
    assert capfd.readouterr().err == ""

    assert talks(f"{EXPECTED}func.func private @fail()", "--verify-diagnostics") == 1
    assert "error: unexpected error: an error" in capfd.readouterr().err

    failing = f"{EXPECTED}// expected-error @below {{{{an error}}}}\nfunc.func private @fail()"
    assert talks(failing, "--verify-diagnostics") == 0
    output, errors = capfd.readouterr()
    assert (output, errors) == ("", "")


def test_places_in_other_files_are_quoted_and_count_as_unknown(talks, capfd, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import jax\nloss = jax.grad(f)(x)\n")
    text = f'func.func private @fine() loc("jit(f)/grad"("{script}":2:8))'
    assert talks(text) == 0
    assert f"{script}:2:8: remark: a remark\nloss = jax.grad(f)(x)\n       ^" in (
        capfd.readouterr().err
    )
    expected = EXPECTED.replace("below", "unknown")
    assert talks(expected + text, "--verify-diagnostics") == 0


def test_a_remark_does_not_fail_the_tool_but_a_missing_one_does(talks, capfd):
    text = "func.func private @fine()\n// expected-remark @above {{another remark}}"
    assert talks(text, "--verify-diagnostics=only-expected") == 1
    assert 'expected remark "another remark" was not produced' in capfd.readouterr().err


def test_jaxlib_reports_why_it_could_not_parse(monkeypatch, capfd, tmp_path):
    def fail(*_):
        raise ValueError("for no reason that it says")

    monkeypatch.setattr(ir.Module, "parseFile", fail)
    file = tmp_path / "input.mlir"
    file.write_text(GOOD)
    assert opt.main([str(file)]) == 1
    assert capfd.readouterr().err == f"{file}:0:0: error: for no reason that it says\n"
