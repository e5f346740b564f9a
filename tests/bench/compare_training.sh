#!/usr/bin/env bash
# The training loops of keel (shuffle and feeding included) beside libtorch's with its batches ready in memory, in turns
# in one run; prints the median microseconds of a step and the ratio. Usage: compare_training.sh [BUILD] [ROUNDS]
# Data: KEEL_MNIST_DIR, else the built-in digits. Nothing else should run meanwhile.
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/release}
rounds=${2:-5}
data=${KEEL_MNIST_DIR:-digits}
threads=2
torch=$build/bin/bench_torch_training
[ -x "$torch" ] || { echo "no $torch: configure with -DKEEL_BUILD_BENCH=ON and libtorch-dev installed" >&2; exit 1; }
# Two thread pools on two cores would flatter us: libtorch gets the OpenMP build of OpenBLAS, bound to cores.
openblas=/usr/lib/$(uname -m)-linux-gnu/openblas-openmp
run_torch() {
  LD_LIBRARY_PATH=$openblas OMP_NUM_THREADS=$threads OPENBLAS_NUM_THREADS=$threads OMP_PROC_BIND=true \
    OMP_PLACES=cores "$torch" "$1" "$2" $threads "$3" "$data"
}
summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
run_keel() { # model batch steps backend
  "$build/bin/keel" train --model "$1" --batch "$2" --steps "$3" --backend "$4" --threads $threads --lr 0.01 \
    --data "$data" --quiet --summary "$summary"
  sed -n 's/.*"step_us": *\([0-9.e+-]*\).*/\1/p' "$summary"
}
median() { sort -g | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'; }

printf '%-8s %-10s %12s %12s %8s\n' model contestant 'us a step' 'libtorch us' ratio
for row in "softmax 100 6000" "mlp 128 468"; do
  read -r model batch steps <<<"$row"
  declare -A times=([torch]="" [npu]="" [cpu]="")
  for _ in $(seq "$rounds"); do
    times[torch]+="$(run_torch "$model" "$batch" "$steps") "
    for backend in npu cpu; do times[$backend]+="$(run_keel "$model" "$batch" "$steps" "$backend") "; done
  done
  reference=$(tr ' ' '\n' <<<"${times[torch]}" | grep . | median)
  for backend in npu cpu; do
    mine=$(tr ' ' '\n' <<<"${times[$backend]}" | grep . | median)
    printf '%-8s %-10s %12.1f %12.1f %8.2f\n' "$model" "keel $backend" "$mine" "$reference" \
      "$(awk "BEGIN {print $mine / $reference}")"
  done
done
