from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from deepinfer_neuron.compiler.targets.flags import REINTERPRET_FP8, CompilerFlags, default_flags, merge_flags
from deepinfer_neuron.errors import ConfigError
from hypothesis import given
from hypothesis import strategies as st

OPTIONS = "--internal-hlo2tensorizer-options"
START = "neuronx-cc compile module.mlir --framework=XLA"
END = "--logfile=log-neuron-cc.txt --output=module.neff"
INTEGERS = "--native-int64=enabled --implicit-integer-downcast=none"
FP8 = f"{OPTIONS}={REINTERPRET_FP8}"


def command(flags: CompilerFlags) -> str:
    return shlex.join(flags.command_line(Path("module.mlir"), Path("module.neff"), Path("log-neuron-cc.txt")))


@pytest.mark.parametrize(
    ("target", "middle"),
    [
        ("trn1", f"--target=trn1 --lnc=1 --optlevel=2 --model-type=transformer --auto-cast=none {FP8}"),
        ("trn2", f"--target=trn2 --lnc=2 --optlevel=2 --model-type=transformer --auto-cast=none {INTEGERS} {FP8}"),
        ("trn3", f"--target=trn3 --lnc=2 --optlevel=2 --model-type=transformer --auto-cast=none {INTEGERS}"),
    ],
    ids=["trn1", "trn2", "trn3"],
)
def test_the_command_of_each_target(target, middle):
    assert command(default_flags(target)) == f"{START} {middle} {END}"


def test_the_command_with_everything():
    flags = CompilerFlags("trn2", 1, 1, "generic", (REINTERPRET_FP8, "--verify-hlo=true"), ("--verbose=35",))
    assert command(flags) == (
        f"{START} --target=trn2 --lnc=1 --optlevel=1 --model-type=generic --auto-cast=none {INTEGERS} "
        f"'{OPTIONS}={REINTERPRET_FP8} --verify-hlo=true' --verbose=35 {END}"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inf2", 1), "target 'inf2': expected one of trn1, trn2, trn3"),
        (("trn1", 2), "--lnc=2: trn1 has logical cores of 1 physical cores .*NCC_EARG001"),
        (("trn2", 4), "--lnc=4: trn2 has logical cores of 1 or 2 physical cores"),
        (("trn2", 2, 4), "--optlevel=4: expected 1 or 2 or 3"),
        (("trn2", 2, 2, "mamba"), "--model-type=mamba: expected generic or transformer"),
        (("trn3", 2, 2, "transformer", (REINTERPRET_FP8,)), "trn3 computes in OCP e4m3fn .*NCC_EOCP001"),
    ],
    ids=["target", "lnc-trn1", "lnc", "optlevel", "model-type", "fp8-trn3"],
)
def test_bad_combinations_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        CompilerFlags(*arguments)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_fp8_bytes_can_be_read_as_the_older_type_where_that_is_the_only_one(target):
    assert REINTERPRET_FP8 in CompilerFlags(target, 1, tensorizer_options=(REINTERPRET_FP8,)).words[-1]


@pytest.mark.parametrize(
    "environment",
    ["-O1", "-O 1", "-O=1", "--optlevel 1", "--optlevel=1", "'-O' '1'", "-O1 --optlevel=1"],
)
def test_every_spelling_of_a_flag_is_read(environment):
    assert merge_flags(default_flags("trn2"), environment) == replace(default_flags("trn2"), optlevel=1)


@pytest.mark.parametrize(
    "environment", ["", "--target=trn2 --lnc 2", "-lnc 2", "--logical-nc-config=2 --framework XLA"]
)
def test_agreement_changes_nothing(environment):
    assert merge_flags(default_flags("trn2"), environment) == default_flags("trn2")


def test_flags_of_the_wrapper_are_not_passed_to_the_compiler():
    environment = "--cache_dir=s3://bucket --no_cache --retry_failed_compilation --log_level INFO --model-type generic"
    assert merge_flags(default_flags("trn2"), environment) == replace(default_flags("trn2"), model_type="generic")


def test_tensorizer_options_are_one_flag_however_often_they_are_given():
    environment = f"{OPTIONS}='--verify-hlo=true --b' {OPTIONS} '--a --verify-hlo=true'"
    flags = merge_flags(CompilerFlags("trn2", 2, tensorizer_options=("--c",)), environment)
    assert flags.tensorizer_options == ("--a", "--b", "--c", "--verify-hlo=true")
    assert [word for word in flags.words if word.startswith(OPTIONS)] == [f"{OPTIONS}=--a --b --c --verify-hlo=true"]


def test_one_tensorizer_option_has_one_value():
    with pytest.raises(ConfigError, match="--threshold twice, as --threshold=1 and --threshold=2"):
        merge_flags(default_flags("trn2"), f"{OPTIONS}='--threshold=1' {OPTIONS}='--threshold=2'")


def test_unknown_flags_are_passed_on():
    environment = (
        "--verbose 35 --enable-fast-loading-neuron-binaries --internal-backend-options='--enable-verifier=false'"
    )
    assert merge_flags(default_flags("trn1"), environment).others == (
        "--enable-fast-loading-neuron-binaries",
        "--internal-backend-options=--enable-verifier=false",
        "--verbose=35",
    )


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ("--target=trn1", "has --target=trn1, but trn2 is compiled for"),
        ("--lnc=1", "has --lnc=1, but 2 is compiled for"),
        ("--auto-cast=all", "--auto-cast=all: expected none; other values change results"),
        ("--native-int64=disabled", "--native-int64=disabled: expected enabled"),
        ("--implicit-integer-downcast all", "--implicit-integer-downcast=all: expected none"),
        ("--framework TENSORFLOW", "--framework=TENSORFLOW: expected XLA"),
        ("--optlevel=9", "--optlevel=9: expected 1 or 2 or 3"),
        ("--output=mine.neff", "has --output: files are named by us"),
        ("--logfile mine.txt", "has --logfile: files are named by us"),
        ("-O1 -O2", "has --optlevel twice, as 1 and 2"),
        ("--verbose=1 --verbose=2", "has --verbose twice"),
        ("--optlevel", "has --optlevel without a value"),
        ("module.hlo", "has 'module.hlo': expected a flag"),
        ("--verbose='", "expected shell words"),
    ],
    ids=lambda value: value.split("=")[0].split()[0] if value.startswith("-") else None,
)
def test_contradictions_are_refused(environment, message):
    with pytest.raises(ConfigError, match=message):
        merge_flags(default_flags("trn2"), environment)


def test_fp8_reinterpretation_from_the_environment_is_refused_on_trn3():
    environment = f"{OPTIONS}={REINTERPRET_FP8}"
    assert merge_flags(default_flags("trn2"), environment).tensorizer_options == (REINTERPRET_FP8,)
    with pytest.raises(ConfigError, match="NCC_EOCP001"):
        merge_flags(default_flags("trn3"), environment)


@given(st.permutations(["--optlevel=3", "--model-type=generic", "--b", "--a=1", f"{OPTIONS}=--y", f"{OPTIONS}=--x"]))
def test_the_order_of_the_environment_does_not_matter(words):
    flags = merge_flags(default_flags("trn2"), shlex.join(words))
    assert flags == CompilerFlags("trn2", 2, 3, "generic", (REINTERPRET_FP8, "--x", "--y"), ("--a=1", "--b"))
    assert merge_flags(flags, shlex.join(words)) == flags
