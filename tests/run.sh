#!/usr/bin/env bash
# Installs what is missing, builds, and runs the test suite.
#   tests/run.sh          CI scale: the suite's build (preset suite) and every test
#   tests/run.sh --all    long counts and trainings, the release, clang and sanitizer builds, clang-tidy (lint.sh)
#                         and coverage (coverage.sh)
# Tests on real MNIST need KEEL_MNIST_DIR, a folder with the four IDX files; without it they are skipped.
set -eu
cd "$(dirname "$0")/.."
. examples/install_packages.sh

presets=(suite)
case "${1:-}" in
  "") ;;
  --all)
    export KEEL_TEST_SCALE=long
    presets=(release clang asan-ubsan tsan dev suite)
    ;;
  *)
    echo "usage: tests/run.sh [--all]" >&2
    exit 2
    ;;
esac

case " ${presets[*]} " in *" clang "*) keel_test_packages+=(clang clang-tidy llvm python3-onnx python3-opencv) ;; esac
if [ "${1:-}" = --all ] && ! command -v npm >/dev/null; then keel_test_packages+=(nodejs npm); fi
install_packages "${keel_packages[@]}" "${keel_test_packages[@]}"
# Exported models are checked by the project's own checker and run by ONNX Runtime, and control flow of GraphDefs is
# run by TensorFlow.js; both come from npm: not at CI scale, for the time that it takes. Without these the tests are skipped.
install_judge() {  # VARIABLE FOLDER PACKAGE: installs the package, and says in the variable where
  if [ -n "${!1:-}" ]; then return; fi
  mkdir -p "$2"
  if npm install --prefix "$2" --ignore-scripts --no-audit --no-fund "$3" >/dev/null; then
    export "$1=$2"
  else
    echo "npm cannot install $3: the tests that need $1 are skipped" >&2
  fi
}
if [ "${1:-}" = --all ]; then
  install_judge KEEL_ONNXRUNTIME "$PWD/build/onnxruntime" onnxruntime-node@1.30.0
  install_judge KEEL_TFJS "$PWD/build/tfjs" @tensorflow/tfjs@4.22.0
fi
# One test more than there are cores: some wait for what does not come, for up to a minute.
failed=()
for preset in "${presets[@]}"; do
  echo "== $preset"
  if ! { cmake --preset "$preset" -Wno-dev --log-level=NOTICE &&
         cmake --build --preset "$preset" &&
         ctest --preset "$preset" --parallel "$(($(nproc) + 1))"; }; then
    failed+=("$preset")
  fi
done
if [ ${#presets[@]} -gt 1 ]; then
  for gate in lint coverage; do
    echo "== $gate"
    "tests/$gate.sh" || failed+=("$gate")
  done
fi
if [ ${#presets[@]} -gt 1 ] && [ ${#failed[@]} -ne 0 ]; then
  echo "failed: ${failed[*]}" >&2
fi
[ ${#failed[@]} -eq 0 ]
