#!/usr/bin/env bash
# Builds the coverage preset, runs the suite in it and holds what ran against thresholds: of the library as a
# whole, and of each file that reads what strangers wrote or writes what must survive. Branches that only an
# exception thrown by a callee takes are left out: the compiler adds one to nearly every call.
#   tests/coverage.sh                needs gcovr (Debian's package of this name)
set -eu
cd "$(dirname "$0")/.."
build=build/coverage
least_lines=97     # per cent of all lines
least_branches=86  # per cent of all branches
least_guarded=95   # per cent of the branches of each file below
guarded=(
  core/base/file.cpp core/base/json.cpp core/tensor/npy.cpp
  data/formats/byte_source.cpp data/formats/csv.cpp data/formats/idx.cpp data/formats/mnist.cpp
  graph/ir/lexer.cpp graph/ir/parse.cpp
  graph/runtime/checkpoint.cpp graph/runtime/safetensors.cpp
  backends/npu/presets/preset.cpp backends/npu/profile/csv.cpp
)

cmake --preset coverage -Wno-dev --log-level=NOTICE
cmake --build --preset coverage
# Counts of an earlier run would add up with this one's.
find "$build" -name '*.gcda' -delete
# Trainings on real MNIST take half an hour without optimisation and reach nothing that other tests do not.
env -u KEEL_MNIST_DIR ctest --preset coverage --parallel "$(nproc)"

rooms=(--filter core/ --filter graph/ --filter ops/ --filter backends/ --filter data/)
gcovr --root . --object-directory "$build" "${rooms[@]}" --exclude-throw-branches --exclude-unreachable-branches \
  -j "$(nproc)" --json "$build/coverage.json" "$build"
failed=0
gcovr --root . --add-tracefile "$build/coverage.json" --print-summary --output "$build/coverage.txt" \
  --fail-under-line "$least_lines" --fail-under-branch "$least_branches" || failed=1
for file in "${guarded[@]}"; do
  # A file that was renamed must not drop out of the list in silence.
  if [ ! -f "$file" ]; then
    echo "coverage: $file is in the list of guarded files and not in the tree" >&2
    failed=1
    continue
  fi
  if ! gcovr --root . --add-tracefile "$build/coverage.json" --filter "$file\$" --branches \
       --fail-under-branch "$least_guarded" --output "$build/coverage_of_file.txt"; then
    echo "coverage: branches of $file are below $least_guarded %; the lines that lack some:" >&2
    grep "$file" "$build/coverage_of_file.txt" >&2 || true
    failed=1
  fi
done
exit "$failed"
