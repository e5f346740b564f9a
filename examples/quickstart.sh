#!/usr/bin/env bash
# From a bare Debian 12 to a trained model: installs what is missing, builds the release, and trains
# softmax regression on the built-in digits on the simulated NPU. A second run skips what is there.
set -eu
cd "$(dirname "$0")/.."
. examples/install_packages.sh

install_packages "${keel_packages[@]}"
cmake --preset release -Wno-dev --log-level=NOTICE
cmake --build --preset release --target keel_cli
keel=build/release/bin/keel
"$keel" train --model softmax --data digits --backend npu --epochs 3

cat <<TEXT

That was $keel. Where to go next:
  $keel train --model mlp --optimizer adam      a deeper model on the same digits
  $keel train --data DIR                        your own MNIST files (four IDX files, plain or .gz)
  $keel info                                    backends, devices, and which op runs where
  $keel graph --model softmax                   the graph behind the model
  README.md                                     the same model in 20 lines of C++
  tests/run.sh                                  the whole test suite
TEXT
