#!/usr/bin/env bash
# clang-tidy over every source of the library and of the examples, with .clang-tidy as committed. Fails on any
# finding, warnings included: the accepted number is zero, and a suppression stands in the code with its reason.
#   tests/lint.sh                needs clang and clang-tidy (Debian's packages of these names)
# clang-tidy reads the flags of clang's build: g++'s own warning flags are foreign to it. Configured is a build without
# tests, since those compile some sources of the examples a second time, and without precompiled headers, which are not
# built here and would hide that a source misses an include.
set -eu
cd "$(dirname "$0")/.."
build=build/lint
cmake --preset clang -B "$build" -D KEEL_BUILD_TESTS=OFF -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON -Wno-dev --log-level=NOTICE
sources=$(git ls-files 'core/*.cpp' 'graph/*.cpp' 'ops/*.cpp' 'backends/*.cpp' 'data/*.cpp' 'examples/*.cpp')
# Sources that this build leaves out have no flags to be read with.
sources=$(for source in $sources; do
  if grep -q "\"file\": \"$PWD/$source\"" "$build/compile_commands.json"; then echo "$source"; fi
done)
report="$build/lint.txt"
: > "$report"
if [ -z "$sources" ]; then
  echo "$build/compile_commands.json names no source of $PWD; configure it anew" >&2
  exit 2
fi
# Each run writes to a file of its own, since lines of runs beside each other would mix. A run that ends otherwise
# than well without a finding (no clang-tidy, killed, crashed) is one.
tidy() {
  local out="$2/lint_$(echo "$1" | tr / _).txt" status=0
  clang-tidy -p "$2" --quiet "$1" > "$out" 2>&1 || status=$?
  if [ "$status" -ne 0 ] && ! grep -qE ': (warning|error): ' "$out"; then
    echo "$1:0:0: error: clang-tidy ended with status $status" >> "$out"
  fi
  cat "$out"
  rm -f "$out"
}
export -f tidy
echo "$sources" | xargs -P "$(nproc)" -I{} bash -c 'tidy "$@"' tidy {} "$build" > "$report"
findings=$(grep -cE ': (warning|error): ' "$report" || true)
if [ "$findings" -ne 0 ]; then
  grep -E ': (warning|error): ' "$report" | sort -u >&2
  echo "clang-tidy: $findings findings, 0 accepted; $report has them with their lines" >&2
  exit 1
fi
echo "clang-tidy: $(echo "$sources" | wc -l) sources, no finding"
