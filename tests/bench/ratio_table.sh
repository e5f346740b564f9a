#!/usr/bin/env bash
# The ratio table: Keel's trainings (shuffle and scaling included) beside libtorch's, with its batches ready in memory,
# and beside steps written by hand, all in turns in one run; and what Keel promises about itself. Prints Markdown:
# medians (least..most) and whether the targets are met; "at the peak" is the ratio that a step would have whose products
# (convolutions by direct sums) ran at the multiply-add peak of this run and whose other work cost nothing.
# Usage: ratio_table.sh [BUILD] [ROUNDS] [PART...], parts: steps models accuracy general costs.
# charlm reads README.md. Data of the others: KEEL_MNIST_DIR, a folder with the gzipped files, else the built-in digits, without the rows that need the real
# ones. Nothing else should run meanwhile.
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/release}
rounds=${2:-5}
parts=" ${*:3} "
[ "$parts" != "  " ] || parts=" steps models accuracy general costs "
real=${KEEL_MNIST_DIR:-}
data=${real:-digits}
bin=$build/bin
openblas=/usr/lib/$(uname -m)-linux-gnu/openblas-openmp
scratch=$(mktemp -d)
summary=$scratch/summary
trap 'rm -rf "$scratch"' EXIT

has() { [[ $parts == *" $1 "* ]]; }
leave_out() { echo "left out: $*" >&2; }
for program in keel bench_keel_training bench_framework; do
  [ -x "$bin/$program" ] || { echo "no $bin/$program: configure with -DKEEL_BUILD_BENCH=ON" >&2; exit 1; }
done
[ -n "$real" ] || leave_out "rows that need the real MNIST (KEEL_MNIST_DIR)"
with_torch=yes with_hand=yes
[ -x $bin/bench_torch_training ] || { with_torch=; leave_out "libtorch: no bench_torch_training (libtorch-dev)"; }
# Two thread pools on two cores would flatter us five-fold.
[ -d "$openblas" ] || { with_torch=; leave_out "libtorch: no OpenMP build of OpenBLAS (libopenblas-openmp-dev)"; }
[ -x $bin/bench_hand_training ] || { with_hand=; leave_out "steps by hand: no bench_hand_training (x86-64 only)"; }

# ---- measuring: one number after the other into samples[NAME]
declare -A samples=() refused=()
add() { samples[$1]+="$2 "; }
# collect NAME COMMAND...: the first of the words that it prints is the number, and all of them stay in $words; 77 is a refusal with its reason
collect() {
  local name=$1 code=0
  words=
  shift
  [ -z "${refused[$name]:-}" ] || return 0
  words=$("$@") || code=$?
  case $code in
    0) add "$name" "${words%% *}" ;;
    77) refused[$name]=yes; leave_out "$name" ;;
    *) echo "failed ($code): $*" >&2; exit 1 ;;
  esac
}
# glibc gives the memory of large tensors back and has it faulted in again in each step: nearly a third of libtorch's time for lenet.
keep_memory() { MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=8000000000 "$@"; }
bound() { # THREADS COMMAND...: for peers on OpenMP
  keep_memory env OMP_NUM_THREADS=$1 OPENBLAS_NUM_THREADS=$1 OMP_PROC_BIND=true OMP_PLACES=cores LD_LIBRARY_PATH=$openblas "${@:2}"
}
torch() { # NAME step|accuracy TASK THREADS STEPS|SEED [DATA [BATCH]]: also the memory, which is its last word
  [ -n "$with_torch" ] || return 0
  collect "$1" bound "$4" "$bin/bench_torch_training" "${@:2:4}" "${6:-$data}" "${@:7}"
  [ -n "${refused[$1]:-}" ] || add "$1 memory" "${words##* }"
}
hand() { # NAME TASK STEPS
  [ -z "$with_hand" ] || collect "$1" bound 2 "$bin/bench_hand_training" "$2" "$3" "$data"
}
keel() { # NAME BACKEND PRECISION step|accuracy TASK THREADS STEPS|SEED
  collect "$1" "$bin/bench_keel_training" "${@:2}" "$data"
}
field() { sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p" "$summary"; }
tool() { # NAME MODEL BATCH STEPS BACKEND PRECISION THREADS [LR] [DATA]: also the memory
  "$bin/keel" train --model "$2" --batch "$3" --steps "$4" --backend "$5" --precision "$6" --threads "$7" \
    --lr "${8:-0.01}" --data "${9:-$data}" --quiet --summary "$summary"
  add "$1" "$(field step_us)"
  add "$1 memory" "$(awk "BEGIN {print $(field peak_rss_bytes) / 1048576}")"
}
whole_process() {
  local start=$EPOCHREALTIME
  "$bin/keel" train --model softmax --epochs 1 --data "$data" --quiet
  awk "BEGIN {print $EPOCHREALTIME - $start}"
}

# The rates of this machine's limits in this round: multiply-adds on registers, memory read and copied, a line that two threads
# write in turns.
limit_names=("multiply-add f32 registers" "multiply-add bf16 registers" "read memory" "copy memory" "read cache" "copy cache" \
  "hand-over caches")
measure_limits() {
  local name rate
  "$bin/keel" bench kernels --kernels sums --kib 64 --dtypes f32,bf16 --threads 2 --seconds 0.1 > "$scratch/limits"
  for name in "${limit_names[@]}"; do
    # A limit that is not known here has no line.
    rate=$(awk -v name="$name" '{$1 = $1} index($0, name " ") == 1 {print $(split(name, words, " ") + 1)}' "$scratch/limits")
    add "limit $name" "$rate"
  done
}
# Billions of operations of the products of a step: of the modelled device's cubes, which count no padding.
declare -A products=()
count_products() { # MODEL BATCH [DATA]
  [ -z "${products[$1 $2]:-}" ] || return 0
  mkdir "$scratch/profile"
  "$bin/keel" train --model "$1" --batch "$2" --steps 2 --data "${3:-$data}" --quiet --preset ascend910b1 \
    --profile-steps 2-2 --profiling-mode true --profiling-options \
    '{"output": "'"$scratch/profile"'", "task_trace": "on", "aic_metrics": "ArithmeticUtilization"}' 2> "$scratch/said" ||
    { cat "$scratch/said" >&2; exit 1; }
  products[$1 $2]=$(find "$scratch/profile" -name 'op_summary*.csv' -exec awk -F, '
    {gsub(/"[^"]*"/, "")}
    NR == 1 {for (i = 1; i <= NF; ++i) if ($i == "aic_cube_fops") column = i}
    NR > 1 {operations += $column}
    END {print operations / 1e9}' {} \;)
  rm -r "$scratch/profile"
}

measure_steps() {
  count_products softmax 100
  count_products mlp 128
  torch "torch softmax" step softmax 2 6000
  tool "npu softmax fp32" softmax 100 6000 npu fp32 2
  tool "cpu softmax fp32" softmax 100 6000 cpu fp32 2
  tool "npu softmax mixed_bf16" softmax 100 6000 npu mixed_bf16 2
  tool "cpu softmax mixed_bf16" softmax 100 6000 cpu mixed_bf16 2
  hand "hand softmax" softmax 6000
  torch "torch mlp" step mlp 2 468
  tool "npu mlp fp32" mlp 128 468 npu fp32 2
  tool "cpu mlp fp32" mlp 128 468 cpu fp32 2
  tool "npu mlp mixed_bf16" mlp 128 468 npu mixed_bf16 2
  tool "cpu mlp mixed_bf16" mlp 128 468 cpu mixed_bf16 2
  hand "hand mlp" mlp 468
  hand "hand mlp_bf16" mlp_bf16 468
  tool "npu mlp fp32 alone" mlp 128 468 npu fp32 1
  tool "npu mlp mixed_bf16 alone" mlp 128 468 npu mixed_bf16 1
}
# MODEL BATCH STEPS
models=("lenet 64 60" "resnet 100 40" "transformer 100 60" "lstm 100 60" "charlm 32 60")
measure_models() {
  local model batch steps backend text shape
  for shape in "${models[@]}"; do
    read -r model batch steps <<< "$shape"
    [ "$model" = charlm ] && text=README.md || text=$data
    count_products "$model" "$batch" "$text"
    torch "torch $model" step "$model" 2 "$steps" "$text"
    for backend in npu cpu; do
      tool "$backend $model fp32" "$model" "$batch" "$steps" $backend fp32 2 0.001 "$text"
      tool "$backend $model mixed_bf16" "$model" "$batch" "$steps" $backend mixed_bf16 2 0.001 "$text"
    done
  done
}
measure_accuracy() { # SEED
  local model precision
  for model in softmax mlp lenet; do
    torch "torch $model accuracy" accuracy $model 2 "$1"
    for precision in fp32 mixed_bf16; do
      keel "$model accuracy $precision" npu $precision accuracy $model 2 "$1"
    done
  done
}
# MODEL IMAGES: about as many as each batch trains on
batch_models=("softmax 400000" "mlp 60000" "lenet 6000" "transformer 6000")
batches=(1 16 256 4096)
measure_batches() {
  local shape model images batch steps
  for shape in "${batch_models[@]}"; do
    read -r model images <<< "$shape"
    for batch in "${batches[@]}"; do
      steps=$((images / batch > 3000 ? 3000 : images / batch < 10 ? 10 : images / batch))
      count_products "$model" "$batch"
      torch "torch $model of $batch" step "$model" 2 "$steps" "$data" "$batch"
      tool "npu $model of $batch" "$model" "$batch" "$steps" npu fp32 2 0.001
    done
  done
}
measure_general() {
  local threads backend model
  measure_batches
  for threads in 2 4; do
    for model in softmax mlp; do
      keel "npu $model, $threads threads" npu fp32 step "$model" "$threads" 468
    done
  done
  for threads in 1 2; do
    torch "torch tanh $threads" step tanh $threads 1200
    for backend in npu cpu; do keel "$backend tanh $threads" $backend fp32 step tanh $threads 1200; done
  done
}
measure_costs() {
  if [ -n "$real" ]; then
    collect "load" "$bin/bench_keel_training" load "$data"
    collect "process" whole_process
  fi
  local step task total growth plan
  read -r step task < <("$bin/bench_framework" | awk '/^npu:0 with a queue/ {print $7, $(NF - 6)}')
  add "framework step" "$step"
  add "framework task" "$task"
  # Of each graph 1,000 and 10,000 nodes; the worst of them.
  # Once 100,000, which take seconds.
  add "compile 100,000" "$("$bin/keel" bench compile --backends npu --sizes 100000 --rounds 1 |
    awk '$2 == "npu" && NF == 12 && $10 > total {total = $10} END {print total / 1000}')"
  read -r total growth plan < <("$bin/keel" bench compile --backends npu --sizes 1000,10000 --rounds 1 |
    awk '$2 == "npu" && NF == 12 {
           if ($3 < 5000) small[$1] = $10
           else {
             if ($10 > total) total = $10
             if ($10 / small[$1] > growth) growth = $10 / small[$1]
           }
           if ($12 > plan) plan = $12
         } END {print total / 1000, growth, plan}')
  add "compile" "$total"
  add "growth" "$growth"
  add "plan" "$plan"
}

# ---- the table
# "median least most"
spread() { tr ' ' '\n' <<<"${samples[$1]}" | grep . | sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)], v[1], v[NR]}'; }
shown() { spread "$1" | awk -v unit="$2" '
  function digits(x) {return sprintf(x < 1000 ? "%.3g" : "%.0f", x)}
  {print digits($1) " (" digits($2) ".." digits($3) ")" unit}'; }
quicker() { # of two names, the one with the lower median
  awk -v a="$(spread "$1")" -v b="$(spread "$2")" -v x="$1" -v y="$2" 'BEGIN {print a + 0 <= b + 0 ? x : y}'
}
verdict() { # VALUE "<= N" | ">= N" | "-"
  awk -v value="$1" -v target="$2" 'BEGIN {
    split(target, t, " ")
    print t[1] == "-" ? "-" : (t[1] == "<=" ? value <= t[2] : value >= t[2]) ? "yes" : "no" }'
}
line() { printf '| %-47s | %-27s | %-27s | %-5s | %-11s | %-10s | %-3s |\n' "$@"; }
# The us that the products of a step take at the peak of a dtype, or nothing where either is not known.
time_at_peak() { # "MODEL BATCH" DTYPE
  [ -n "${products[$1]:-}" ] && [ -n "$(spread "limit multiply-add $2 registers")" ] || return 0
  awk -v work="${products[$1]}" -v peak="$(spread "limit multiply-add $2 registers")" 'BEGIN {print work / peak * 1e6}'
}
# The ratio of the medians is held against the target.
ratio_row() { # WHAT NAME PEER UNIT TARGET ["MODEL BATCH" DTYPE of the products]
  [ -n "${samples[$2]:-}" ] && [ -n "${samples[$3]:-}" ] || return 0
  local ratio at_peak=
  ratio=$(awk -v a="$(spread "$2")" -v b="$(spread "$3")" 'BEGIN {printf "%.3f", a / b}')
  [ -z "${6:-}" ] || at_peak=$(time_at_peak "$6" "$7")
  [ -z "$at_peak" ] || at_peak=$(awk -v a="$at_peak" -v b="$(spread "$3")" 'BEGIN {printf "%.3f", a / b}')
  line "$1" "$(shown "$2" " $4")" "$(shown "$3" " $4")" "$ratio" "${at_peak:--}" "$5" "$(verdict "$ratio" "$5")"
}
value_row() { # WHAT NAME UNIT TARGET: without a peer
  [ -n "${samples[$2]:-}" ] || return 0
  line "$1" "$(shown "$2" " $3")" "-" "-" "-" "$4 $3" "$(verdict "$(spread "$2" | cut -d' ' -f1)" "$4")"
}
# On cpu, mixed bf16 is to be no slower than fp32 where the processor has instructions for it.
target_of_mixed_on_cpu() { grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo && echo "<= 1" || echo -; }
print_steps() {
  # Targets of mixed bf16 depend on how the processor multiplies it: on tiles, by dot products, or as f32.
  local mixed=- softmax_mixed=- mixed_by_hand="<= 1.0" by_hand="AVX2 by hand" on_cpu
  on_cpu=$(target_of_mixed_on_cpu)
  grep -qw avx512f /proc/cpuinfo && by_hand="AVX-512 by hand"
  [ "$on_cpu" = - ] || mixed="<= 0.22" softmax_mixed="<= 0.13"
  grep -qw amx_bf16 /proc/cpuinfo && mixed="<= 0.12" mixed_by_hand="<= 0.50"
  ratio_row "softmax fp32, npu : libtorch" "npu softmax fp32" "torch softmax" us "<= 0.25" "softmax 100" f32
  ratio_row "softmax fp32, npu : $by_hand" "npu softmax fp32" "hand softmax" us "<= 1.25" "softmax 100" f32
  ratio_row "softmax fp32, cpu : libtorch" "cpu softmax fp32" "torch softmax" us "<= 0.50" "softmax 100" f32
  ratio_row "softmax fp32, cpu : $by_hand" "cpu softmax fp32" "hand softmax" us "-" "softmax 100" f32
  ratio_row "softmax mixed bf16, npu : libtorch fp32" "npu softmax mixed_bf16" "torch softmax" us "$softmax_mixed" "softmax 100" bf16
  ratio_row "softmax, npu, mixed bf16 : fp32" "npu softmax mixed_bf16" "npu softmax fp32" us "<= 1"
  ratio_row "softmax, cpu, mixed bf16 : fp32" "cpu softmax mixed_bf16" "cpu softmax fp32" us "$on_cpu"
  ratio_row "mlp fp32, npu : libtorch" "npu mlp fp32" "torch mlp" us "<= 0.50" "mlp 128" f32
  ratio_row "mlp fp32, npu : oneDNN sgemm by hand" "npu mlp fp32" "hand mlp" us "<= 1.05" "mlp 128" f32
  ratio_row "mlp fp32, cpu : libtorch" "cpu mlp fp32" "torch mlp" us "<= 0.75" "mlp 128" f32
  ratio_row "mlp fp32, cpu : oneDNN sgemm by hand" "cpu mlp fp32" "hand mlp" us "-" "mlp 128" f32
  ratio_row "mlp mixed bf16, npu : libtorch fp32" "npu mlp mixed_bf16" "torch mlp" us "$mixed" "mlp 128" bf16
  ratio_row "mlp mixed bf16, npu : oneDNN bf16 by hand" "npu mlp mixed_bf16" "hand mlp_bf16" us "$mixed_by_hand" "mlp 128" bf16
  ratio_row "mlp, cpu, mixed bf16 : fp32" "cpu mlp mixed_bf16" "cpu mlp fp32" us "$on_cpu"
  ratio_row "mlp fp32, npu, 1 thread : 2 threads" "npu mlp fp32 alone" "npu mlp fp32" us ">= 1.8"
  ratio_row "mlp mixed bf16, npu, 1 thread : 2 threads" "npu mlp mixed_bf16 alone" "npu mlp mixed_bf16" us ">= 1.5"
  local precision
  for precision in fp32 mixed_bf16; do
    value_row "peak memory, softmax $precision" "npu softmax $precision memory" MiB "<= 150"
    value_row "peak memory, mlp $precision" "npu mlp $precision memory" MiB "<= 200"
  done
}
print_models() {
  local shape model batch rest target backend
  for shape in "${models[@]}"; do
    read -r model batch rest <<< "$shape"
    case $model in
      lenet) target="<= 0.68" ;;
      resnet) target="<= 0.75" ;;
      lstm) target="<= 0.50" ;;
      *) target="<= 0.70" ;;
    esac
    ratio_row "$model fp32, npu : libtorch" "npu $model fp32" "torch $model" us "$target" "$model $batch" f32
    [ "$model" = lenet ] && target="<= 1.0" || target=-
    ratio_row "$model fp32, cpu : libtorch" "cpu $model fp32" "torch $model" us "$target" "$model $batch" f32
    # The target is for processors with AMX.
    [ "$model" = lenet ] && grep -qw amx_bf16 /proc/cpuinfo && target="<= 0.30" || target=-
    ratio_row "$model mixed bf16, npu : libtorch fp32" "npu $model mixed_bf16" "torch $model" us "$target" \
      "$model $batch" bf16
    ratio_row "$model, cpu, mixed bf16 : fp32" "cpu $model mixed_bf16" "cpu $model fp32" us "$(target_of_mixed_on_cpu)"
    for backend in npu cpu; do
      ratio_row "peak memory, $model fp32, $backend : libtorch (set as floats)" "$backend $model fp32 memory" "torch $model memory" \
        MiB "<= 1"
    done
  done
}
print_accuracy() {
  local best mlp="<= 0.25"
  grep -qw amx_bf16 /proc/cpuinfo && mlp="<= 0.20"
  best=$(quicker "softmax accuracy fp32" "softmax accuracy mixed_bf16")
  ratio_row "softmax to 0.92, npu ${best##* } : libtorch" "$best" "torch softmax accuracy" s "<= 0.15"
  best=$(quicker "mlp accuracy fp32" "mlp accuracy mixed_bf16")
  ratio_row "mlp to 0.98, npu ${best##* } : libtorch" "$best" "torch mlp accuracy" s "$mlp"
  best=$(quicker "lenet accuracy fp32" "lenet accuracy mixed_bf16")
  ratio_row "lenet to 0.99, npu ${best##* } : libtorch" "$best" "torch lenet accuracy" s "<= 0.5"
}
print_general() {
  local threads backend shape model batch
  for shape in "${batch_models[@]}"; do
    model=${shape% *}
    for batch in "${batches[@]}"; do
      ratio_row "$model fp32, npu, batch $batch : libtorch" "npu $model of $batch" "torch $model of $batch" us "<= 1" \
        "$model $batch" f32
    done
  done
  for model in softmax mlp; do
    # More threads than cores must not collapse.
    [ "$(nproc)" = 2 ] && ratio_row "$model fp32, npu, 4 threads on 2 cores : 2 threads" "npu $model, 4 threads" \
      "npu $model, 2 threads" us "<= 1.15"
  done
  for backend in npu cpu; do
    for threads in 1 2; do
      ratio_row "300-77 tanh adam, $backend, threads: $threads : libtorch" "$backend tanh $threads" \
        "torch tanh $threads" us "-"
    done
  done
}
print_costs() {
  value_row "60,000 gzipped images ready to train" load s "<= 0.25"
  value_row "keel train --model softmax --epochs 1" process s "<= 0.6"
  value_row "framework time of a sunk step, npu" "framework step" us "<= 1.5"
  value_row "framework time of a task, npu" "framework task" us "<= 0.5"
  value_row "10,000 nodes: build, differentiate, compile" compile s "<= 0.3"
  value_row "the same : that of 1,000 nodes (n log n: 13.3)" growth "x" "<= 13.3"
  value_row "100,000 nodes: build, differentiate, compile" "compile 100,000" s "<= 5"
  value_row "memory plan : most bytes live at once" plan "x" "<= 1.15"
}

# What other processes, or other virtual machines on the same host, took in the worst round; % of a core.
others=0
busy_ticks() { awk '/^cpu / {print $2 + $3 + $4 + $7 + $8 + $9}' /proc/stat; }
own_ticks() { awk '{print $14 + $15 + $16 + $17}' /proc/$$/stat; }
for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  since=$(busy_ticks) own_since=$(own_ticks) start=$EPOCHREALTIME
  measure_limits
  if has steps; then measure_steps; fi
  if has models; then measure_models; fi
  if has accuracy && [ -n "$real" ]; then measure_accuracy "$round"; fi
  if has general; then measure_general; fi
  if has costs; then measure_costs; fi
  others=$(awk -v ticks="$(($(busy_ticks) - since - $(own_ticks) + own_since))" -v hz="$(getconf CLK_TCK)" \
    -v seconds="$(awk "BEGIN {print $EPOCHREALTIME - $start}")" -v most="$others" \
    'BEGIN {share = int(ticks / hz / seconds * 100 + 0.5); print (share + 0 > most + 0 ? share : most)}')
done
version() { dpkg-query -W -f='${Version}' "$1" 2>/dev/null || echo none; }
echo "$(date +%F), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), commit" \
  "$(git describe --always --dirty 2>/dev/null || echo unknown), libtorch $(version libtorch-dev), oneDNN" \
  "$(version libdnnl-dev), data $data; \`tests/bench/ratio_table.sh BUILD $rounds\`, medians (least..most) of" \
  "$rounds rounds, 2 threads; other processes took at most $others % of a core"
for name in "${limit_names[@]}"; do
  unit=GB/s
  [ "${name#multiply-add}" = "$name" ] || unit=GFLOP/s
  [ "${name#hand-over}" = "$name" ] || unit=M/s
  [ -z "$(spread "limit $name")" ] || echo "limit of 2 threads, $name: $(shown "limit $name" " $unit")"
done
echo
line "what" Keel peer ratio "at the peak" target met
line "---" --- --- --- --- --- ---
if has steps; then print_steps; fi
if has models; then print_models; fi
if has accuracy && [ -n "$real" ]; then print_accuracy; fi
if has general; then print_general; fi
if has costs; then print_costs; fi
