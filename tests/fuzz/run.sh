#!/usr/bin/env bash
# Fuzzes each target for a time: tests/fuzz/run.sh SECONDS [TARGET...]
# Begins with the seeds that the build makes and what earlier runs have left in build/fuzz/corpus. A finding ends the
# target's run with its input as build/fuzz/findings/TARGET-*; once it is mended, a test in tests/issues makes that input.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
  "" | *[!0-9]*)
    echo "usage: tests/fuzz/run.sh SECONDS [TARGET...]" >&2
    exit 2
    ;;
esac
seconds=$1
shift
if [ $# -eq 0 ]; then
  set -- csv graph graphdef idx json npy onnx python safetensors
fi

. examples/install_packages.sh
install_packages "${keel_packages[@]}" "${keel_test_packages[@]}" clang libfuzzer-14-dev
cmake --preset fuzz -Wno-dev --log-level=NOTICE
cmake --build --preset fuzz

failed=()
for target in "$@"; do
  echo "== $target"
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus" build/fuzz/findings
  if [ "$target" = onnx ]; then
    # The models of the ONNX project's own tests, where they are installed, have each of its ops.
    for model in /usr/share/libonnx-testdata/data/{node,simple}/*/model.onnx; do
      [ ! -e "$model" ] || cp -n "$model" "$corpus/$(basename "$(dirname "$model")")"
    done
  fi
  ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1 \
    "build/fuzz/bin/fuzz_$target" -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$target-" "$corpus" "build/fuzz/tests/fuzz_seeds/$target" 2>&1 |
    grep -v '^#[0-9]\|NEW_FUNC' || failed+=("$target")
done
if [ ${#failed[@]} -ne 0 ]; then
  echo "findings in: ${failed[*]}" >&2
  exit 1
fi
