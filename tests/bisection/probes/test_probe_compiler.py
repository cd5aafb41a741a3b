"""Commands of the targets, and those that people write."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from deepinfer_neuron.bisection.probes.probe_compiler import probe_compiler
from deepinfer_neuron.compiler.targets.command import CompilerCommand, missing_output
from deepinfer_neuron.compiler.targets.flags import LOGICAL_CORE_SIZES, default_flags
from deepinfer_neuron.compiler.targets.iree import IreeTarget
from deepinfer_neuron.compiler.targets.neuronx import NeuronTarget
from deepinfer_neuron.compiler.targets.process import ProcessLimits
from deepinfer_neuron.compiler.targets.table import TARGETS
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.settings import Settings
from neuron_compilers import install_compiler


def of_command(command: str, format=None) -> CompilerCommand:
    return probe_compiler(None, command, format)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Settings with the stand-in for neuronx-cc; returns a function that changes them."""

    def use(**options) -> Settings:
        asked = replace(Settings(compiler=install_compiler(tmp_path / "bin")), **options)
        for module in ("neuronx", "neuron_fingerprint"):
            monkeypatch.setattr(f"deepinfer_neuron.compiler.targets.{module}.settings", lambda: asked)
        return asked

    use()
    return use


@pytest.mark.parametrize("name", sorted(LOGICAL_CORE_SIZES))
def test_a_neuron_target_is_probed_with_the_command_that_it_compiles_with(name, settings, tmp_path):
    asked = settings()
    compiler = probe_compiler(name, None)
    flags = default_flags(name)
    expected = flags.command_line(
        Path("module.mlir"), Path("module.neff"), Path("log-neuron-cc.txt"), str(asked.compiler)
    )
    assert compiler.words() == expected
    assert compiler.fingerprint == NeuronTarget(flags, asked.compiler).fingerprint()
    assert (compiler.format, compiler.log_name) == ("mlir", "log-neuron-cc.txt")
    (tmp_path / "module.neff").write_bytes(b"no NEFF")
    assert "NEFF of 7 bytes" in compiler.damage(tmp_path / "module.neff")


def test_the_settings_choose_flags_and_format(settings):
    settings(module_format="hlo", logical_core_size=1, compiler_flags="-O1")
    compiler = probe_compiler("trn2", None)
    assert (compiler.format, compiler.input_name) == ("hlo", "module.hlo.pb")
    assert {"module.hlo.pb", "--lnc=1", "--optlevel=1"} <= set(compiler.words())


def test_every_target_has_a_probe_with_its_fingerprint(settings):
    for name in TARGETS:
        compiler = probe_compiler(name, None)
        assert compiler.name == name
        assert sum("{input}" in word for word in compiler.command) == 1
        assert compiler.output_name in " ".join(compiler.words())
    assert probe_compiler("iree", None).fingerprint == IreeTarget(ProcessLimits()).fingerprint()


@pytest.mark.parametrize(
    ("command", "format", "input_name", "output_name"),
    [
        ("true {input}", "text", "module.mlir", ""),
        ("true {input} {output}", "text", "module.mlir", "program"),
        ("true {input.mlir} -o {output.vmfb}", "text", "module.mlir", "program.vmfb"),
        ("true --in={input.mlirbc}", "mlir", "module.mlirbc", ""),
        ("true {input.vhlo}", "portable", "module.vhlo", ""),
        ("true {input.hlo.pb} {input}", "hlo", "module.hlo.pb", ""),
        ("true {input.py}", "python", "module.py", ""),
    ],
)
def test_the_ending_says_what_is_read(command, format, input_name, output_name):
    compiler = of_command(command)
    assert (compiler.format, compiler.input_name, compiler.output_name) == (format, input_name, output_name)
    assert "{" not in "".join(compiler.words())


def test_a_format_may_be_named_and_then_any_ending_will_do():
    assert of_command("true {input}", "hlo").input_name == "module.hlo.pb"
    assert of_command("true {input}", "python").input_name == "graph.py"
    compiler = of_command("true {input.dat}", "portable")
    assert (compiler.format, compiler.words()[-1]) == ("portable", "module.dat")


def test_words_are_those_of_a_shell_and_braces_of_others_stay():
    compiler = of_command("true '--passes=a{b=1} {c}' \"x y\" --in={input}:{output}")
    assert compiler.words()[1:] == ["--passes=a{b=1} {c}", "x y", "--in=module.mlir:program"]


def test_files_of_the_command_are_found_from_another_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("check.py", "compile", "tool"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    compiler = of_command("./tool check.py compile ./compile missing.py {input}")
    here = str(tmp_path)
    assert compiler.command == (
        *(f"{here}/tool", f"{here}/check.py", "compile", f"{here}/compile", "missing.py", "{input}"),
    )
    assert compiler.name == "tool check.py"
    assert of_command("./tool {input}").name == "tool"


def test_the_fingerprint_tells_commands_formats_and_contents_apart(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "check.py").write_text("1")
    command = f"{tmp_path}/tool {tmp_path}/check.py {{input}}"
    prints = [of_command(command).fingerprint, of_command(f"{command} -v").fingerprint]
    prints.append(of_command(command, "mlir").fingerprint)
    for name in ("tool", "check.py"):
        (tmp_path / name).write_text("#!/bin/bash\n")
        prints.append(of_command(command).fingerprint)
    assert len(set(prints)) == 5
    assert of_command(command).fingerprint == prints[-1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("true", r"has no \{input\}: write it where"),
        ("", r"has no \{input\}"),
        ("true {output}", r"has no \{input\}"),
        ("true 'a {input}", "expected shell words"),
        ("true {input.mlir} {input.hlo}", "two endings of its input, .hlo and .mlir: keep one"),
        ("true {input} {output.a} {output.b}", "two endings of its output"),
        ("true {input} {input:x}", r"has \{input:x\}: expected \{input\} or an ending"),
        ("true {input.exe}", r"\{input.exe\}: expected an ending of .mlir, .mlirbc"),
        ("no-such-program {input}", "no-such-program: no such program, or none that can be executed"),
        ("{input}", r"\{input\}: no such program"),
    ],
)
def test_commands_that_cannot_be_meant_are_refused(command, message):
    with pytest.raises(ConfigError, match=message):
        of_command(command)


def test_a_file_that_is_not_executable_is_refused(tmp_path):
    path = tmp_path / "compiler"
    path.write_text("#!/bin/sh\n")
    with pytest.raises(ConfigError, match="none that can be executed"):
        of_command(f"{shlex.quote(str(path))} {{input}}")


@pytest.mark.parametrize(
    ("target", "command", "format", "message"),
    [
        (None, None, None, "either as a target or as a command"),
        ("host", "true {input}", None, "either as a target or as a command"),
        ("host", None, "mlir", "has a format of its own"),
        ("gpu", None, None, "unknown target 'gpu': expected one of"),
        (None, "true {input}", "onnx", "unknown format 'onnx': expected one of mlir, text"),
    ],
)
def test_other_choices_are_refused(target, command, format, message):
    with pytest.raises(ConfigError, match=message):
        probe_compiler(target, command, format)


def test_only_the_existence_of_an_output_counts_for_commands(tmp_path):
    assert missing_output(tmp_path / "program") == "it wrote no program"
    (tmp_path / "program").touch()
    assert missing_output(tmp_path / "program") == ""
