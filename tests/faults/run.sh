#!/bin/bash
# Makes ranks of the real tool fail in many ways and checks how the job ends: in time, with exit code 3 of every survivor,
# one line of the launcher that names the rank, its step and its bucket, and nothing left behind.
#
#   tests/faults/run.sh KEEL [--seed N] [--kills N] [--stops N] [--small]
#
# KEEL is the tool. The same seed draws the same ranks and moments. --small: a few of each kind, without the network, and
# without a look at the time. Ends with a table of counts; its exit code is 1 where an expectation was not met.
set -u
keel=$(realpath "$1"); shift
seed=1 kills=200 stops=50 small=
while [ $# -gt 0 ]; do
  case $1 in
    --seed) seed=$2; shift 2 ;;
    --kills) kills=$2; shift 2 ;;
    --stops) stops=$2; shift 2 ;;
    --small) small=yes kills=10 stops=1; shift ;;
    *) echo "unknown: $1" >&2; exit 2 ;;
  esac
done
unset KEEL_MNIST_DIR RANK_ID RANK_SIZE RANK_TABLE_FILE JOB_ID
RANDOM=$seed
limit=20  # seconds that a rank waits for another one
export HCCL_EXEC_TIMEOUT=$limit HCCL_CONNECT_TIMEOUT=$limit
work=$(mktemp -d)  # in memory (TMPDIR=/dev/shm) saves wait for no disk
trap 'rm -rf "$work"' EXIT
declare -A runs met
declare -a order=()
# The gradients of mlp take several buckets.
base=(train --quiet --data "$work/data" --threads 1 --micro-shards 4)
training=("${base[@]}" --model softmax --loop-size 10)
deep=("${base[@]}" --model mlp --loop-size 10)

# As few images as it takes: idx files of bytes that repeat.
make_data() {
  local name count text="what is written here is what the images are made of, row by row"
  mkdir "$work/data"
  for name in "train 400" "t10k 100"; do
    count=${name#* }; name=$work/data/${name% *}
    { printf '\0\0\10\3\0\0'"\\$(printf %o $((count / 256)))\\$(printf %o $((count % 256)))"'\0\0\0\34\0\0\0\34'
      yes "$text" | head -c $((count * 784)); } >"$name-images-idx3-ubyte"
    { printf '\0\0\10\1\0\0'"\\$(printf %o $((count / 256)))\\$(printf %o $((count % 256)))"
      yes "$(printf '\1\2\3\4\5\6\7\10\11')" | tr '\n' '\0' | head -c "$count"; } >"$name-labels-idx1-ubyte"
  done
}

# count KIND yes|TEXT: notes whether a case went as expected, and why not.
count() {
  [ -n "${runs[$1]:-}" ] || order+=("$1")
  runs[$1]=$((${runs[$1]:-0} + 1))
  if [ "$2" = yes ]; then
    met[$1]=$((${met[$1]:-0} + 1))
  else
    echo "$1, case ${runs[$1]}: $2" >&2
    sed 's/^/    /' "$case/err" 2>/dev/null | tail -n 8 >&2
  fi
}

new_case() { case=$(mktemp -d "$work/case.XXXXXX"); }
pause() { sleep "$(printf '0.%03d' "$1")"; }
alive() { kill -0 "$1" 2>/dev/null && [ "$(awk '{print $3}' "/proc/$1/stat" 2>/dev/null)" != Z ]; }

# wait_until SECONDS COMMAND: false where it does not come true.
wait_until() {
  local end=$((SECONDS + $1)); shift
  until "$@"; do [ $SECONDS -le $end ] || return 1; sleep 0.005; done
}

# Starts a job of $1 ranks by the launcher; its words follow.
start_job() {
  local size=$1; shift
  timeout -k 5 $((limit * 2 + 120)) "$keel" launch -n "$size" -- bash -c \
    'echo $$ >"$1.part.$RANK_ID"; mv "$1.part.$RANK_ID" "$1.pid.$RANK_ID"; shift; exec "$0" "$@"' \
    "$keel" "$case/rank" "$@" >"$case/out" 2>"$case/err" &
  job=$!
}

end_job() { code=0; wait "$job" 2>/dev/null || code=$?; }

# Prints which processes are left of the ranks whose numbers were noted; nothing where all is gone.
left_over() {
  local file
  for file in "$case"/rank.pid.*; do
    [ -e "$file" ] && wait_until 5 not_alive "$(cat "$file")" || { [ -e "$file" ] && echo "process $(cat "$file") is left"; }
  done
}
not_alive() { ! alive "$1"; }

# Set where the launcher knew of a checkpoint before a rank was lost: surely where there were two, since it hears of one when
# its folder, too, is on the disk.
had=
last_checkpoint() { ls "$case/saved" 2>/dev/null | grep '^step-.*safetensors$' | tail -n 1; }

# judge RANK HOW SECONDS: prints yes, or which expectation of a job that lost the rank is not met.
judge() {
  local line lines rest
  [ "$code" = 124 ] || [ "$code" = 137 ] && { echo "it hung"; return; }
  [ "$code" = 3 ] || { echo "exit code $code"; return; }
  grep -q 'SIGABRT\|terminate called' "$case/err" && { echo "a rank aborted"; return; }
  lines=$(grep -c "^keel: error: rank $1 was $2" "$case/err")
  line=$(grep "^keel: error: rank $1 was $2" "$case/err" | grep -v 'this rank was' | head -n 1)
  [ "$lines" -ge 1 ] && [ -n "$line" ] || { echo "no line of the launcher"; return; }
  [ "$(grep "^keel: error: rank $1 was $2" "$case/err" | grep -vc 'this rank was')" = 1 ] || { echo "several lines of the launcher"; return; }
  [[ $line =~ (before its first collective|in step [0-9]+, (at|behind) .+ \(collective [0-9]+\)| at .+ \(collective [0-9]+\)) ]] ||
    { echo "neither step nor bucket: $line"; return; }
  [ -z "$had" ] || [[ $line == *"the last checkpoint is $case/saved/step-"* ]] || [ "${4:-}" = maybe ] ||
    { echo "no path of the checkpoint: $line"; return; }
  [ -n "$small" ] || [ "$3" -le $((limit + 5)) ] || { echo "after $3 s"; return; }
  rest=$(left_over)
  [ -z "$rest" ] || { echo "$rest"; return; }
  echo yes
}

# where_lost MOMENT: in which bucket the launcher says that the rank was, or that it was between steps, where that is what
# the moment is about. A rank that has voted and not summed yet is between steps.
where_lost() {
  local line
  line=$(grep "^keel: error: rank " "$case/err" | grep -v 'this rank was' | head -n 1)
  if [ "$1" != "in a bucket" ] && [ "$1" != "between steps" ]; then echo "$1"
  elif [[ $line =~ in\ step\ [0-9]+,\ at\ (bucket\ [0-9]+\ of\ [0-9]+) ]]; then echo "in ${BASH_REMATCH[1]}"
  elif [[ $line =~ in\ step\ [0-9]+,\ at\ votes ]]; then echo "between steps"
  else echo "$1, and the launcher names neither"; fi
}

# The states of the training on one rank, for any number of steps: reference_of STEPS [WORDS].
declare -A reference
reference_of() {
  local steps=$1; shift
  [ $# -gt 0 ] || set -- "${training[@]}"
  if [ -z "${reference[$steps $*]:-}" ]; then
    "$keel" "$@" --batch 40 --steps "$steps" --summary "$work/reference" >/dev/null 2>&1
    reference[$steps $*]=$(sha_in "$work/reference")
    [ -n "${reference[$steps $*]}" ] || { echo "a training alone has no states" >&2; exit 1; }
    rm "$work/reference"
  fi
  expected=${reference[$steps $*]}
}
sha_in() { sed -n 's/.*"state_sha256": *"\([0-9a-f]*\)".*/\1/p' "$1" 2>/dev/null; }

# check_sums WORDS: goes on from the last checkpoint alone, and compares the states with those of a training without any fault.
check_sums() {
  local last step
  last=$(last_checkpoint)
  [ -n "$last" ] || return
  step=$((10#$(echo "$last" | tr -dc 0-9) + 20))
  reference_of "$step" "$@"
  "$keel" "$@" --batch 40 --steps "$step" --resume "$case/saved" --summary "$case/again" >/dev/null 2>"$case/err"
  if [ "$(sha_in "$case/again")" = "$expected" ]; then count "sums behind the last checkpoint" yes
  else count "sums behind the last checkpoint" "the states differ at step $step"; fi
}

has_checkpoint() { [ -n "$(ls "$case/saved" 2>/dev/null | grep '^step-')" ] || ! alive "$job"; }
has_pid() { [ -s "$case/rank.pid.$1" ] || ! alive "$job"; }
is_saving() { compgen -G "$case/saved/.*keel-tmp" >/dev/null || ! alive "$job"; }
has_ended() { [ -e "$case/summary" ] || ! alive "$job"; }

# lose SIGNAL MOMENT: one rank of two is sent the signal.
lose() {
  local kind="$1 $2" rank=$((RANDOM % 2)) delay=$((RANDOM % 150)) how="killed by SIGKILL" steps=100000000 begin verdict
  local -a words=("${training[@]}")
  [ "$1" = STOP ] && how="stopped by SIGSTOP"
  [ "$2" = "in a save" ] && rank=0
  [ "$2" = "at exit" ] && steps=60 delay=$((RANDOM % 4))
  [ "$2" = "in a bucket" ] && words=("${deep[@]}")
  [ "$2" = "between steps" ] && words=("${base[@]}" --model softmax --loop-size 1 --eval-every 1)
  new_case
  start_job 2 "${words[@]}" --batch 20 --steps $steps --checkpoint "$case/saved" --save-every 20 --keep 3 --summary "$case/summary"
  wait_until 60 has_pid $rank
  case $2 in
    rendezvous) ;;
    "in a bucket" | "between steps") wait_until 60 has_checkpoint ;;
    "in a save") wait_until 60 has_checkpoint; delay=0; wait_until 60 is_saving ;;
    "at exit") wait_until 60 has_ended ;;
  esac
  [ $delay = 0 ] || pause $delay
  begin=$SECONDS
  had=$(ls "$case/saved" 2>/dev/null | grep '^step-.*safetensors$' | sed -n 2p)
  kill "-$1" "$(cat "$case/rank.pid.$rank" 2>/dev/null)" 2>/dev/null
  end_job
  if [ "$2" = "at exit" ] && [ $code = 0 ]; then
    verdict=$(left_over)
    count "$kind (it had left)" "${verdict:-yes}"
  else
    count "$1 $(where_lost "$2")" "$(judge $rank "$how" $((SECONDS - begin)) "$([ "$2" = "at exit" ] && echo maybe)")"
    [ "$2" = "in a save" ] || [ $((RANDOM % 8)) = 0 ] && [ "$1" = KILL ] && check_sums "${words[@]}"
  fi
  rm -rf "$case"
}

kill_launcher() {
  new_case
  start_job 2 "${training[@]}" --batch 20 --steps 100000000 --checkpoint "$case/saved" --save-every 20 --keep 3
  wait_until 60 has_checkpoint
  pkill -KILL -P "$job" -x keel 2>/dev/null
  end_job
  local rest
  rest=$(left_over)
  count "launcher killed" "${rest:-yes}"
  rm -rf "$case"
}

# The signal reaches the launcher and each rank, which the launcher sends it to as well.
signal_group() {
  new_case
  start_job 2 "${training[@]}" --batch 20 --steps 100000000 --checkpoint "$case/saved" --save-every 20 --keep 3 --summary "$case/summary"
  wait_until 60 has_checkpoint
  kill -TERM -- "-$job" 2>/dev/null
  end_job
  local rest
  rest=$(left_over)
  if [ "$code" != 143 ]; then count "process group signalled" "exit code $code"
  elif [ ! -s "$case/summary" ]; then count "process group signalled" "no summary"
  elif grep -q "^keel: " "$case/err"; then count "process group signalled" "an error is told"
  else count "process group signalled" "${rest:-yes}"; fi
  rm -rf "$case"
}

# start_rank RANK SIZE [WORDS]: without a launcher.
start_rank() {
  local rank=$1 size=$2; shift 2
  JOB_ID=faults CM_CHIEF_IP=127.0.0.1 CM_CHIEF_PORT=$port CM_WORKER_SIZE=$size RANK_ID=$rank \
    timeout -k 5 $((limit * 2 + 60)) "$keel" "${training[@]}" --batch 20 --steps 40 "$@" >"$case/out.$rank" 2>>"$case/err" &
}
new_port() { port=$((10000 + (RANDOM * 7 + $$) % 15000)); }

# Each rank's exit code in turn; the text is one of the error.
expect_ends() {
  local kind=$1 text=$2 codes=; shift 2
  for process in "$@"; do wait "$process"; codes+="$? "; done
  if [[ $codes =~ ^(3 )+$ ]] && grep -q "$text" "$case/err"; then count "$kind" yes
  else count "$kind" "exit codes $codes"; fi
  rm -rf "$case"
}

without_launcher() {
  new_case; new_port
  HCCL_CONNECT_TIMEOUT=3 start_rank 0 2; expect_ends "rank never started" "these ranks have not come: 1" $!
  new_case; new_port
  HCCL_CONNECT_TIMEOUT=3 start_rank 1 2; expect_ends "rank 0 never started" "nobody answers" $!
  new_case; new_port
  start_rank 0 3; local first=$!; start_rank 1 3; local second=$!; start_rank 1 3
  expect_ends "duplicate rank" "two processes say that they are rank 1" $first $second $!
  new_case; new_port
  start_rank 0 2; first=$!; start_rank 1 3; expect_ends "wrong size" "says that there are 3 ranks; there are 2" $first $!
}

# Connections with random bytes to every port that rank 0 listens at, before rank 1 comes and while they meet.
strangers() {
  new_case; new_port
  start_rank 0 2 --summary "$case/summary"; local first=$! i
  for i in 1 2 3 4 5 6 7 8; do
    (exec 3<>"/dev/tcp/127.0.0.1/$port" && head -c $((RANDOM % 300)) /dev/urandom >&3 && sleep 0.2) 2>/dev/null &
    local noise+=" $!"
    sleep 0.05
  done
  start_rank 1 2; local second=$!
  wait $first; local codes=$?
  wait $second; codes+=" $?"
  wait $noise 2>/dev/null
  reference_of 40
  if [ "$codes" = "0 0" ] && [ "$(sha_in "$case/summary")" = "$expected" ]; then count "strangers' bytes" yes
  else count "strangers' bytes" "exit codes $codes, states $(sha_in "$case/summary"), alone $expected"; fi
  rm -rf "$case"
}

# A flag of rank 1 alone.
mismatches() {
  local -a flags=("--model mlp" "--seed 7" "--lr 0.25" "--batch 10" "--micro-shards 8" "--steps 30" "--loop-size 7"
    "--backend cpu" "--optimizer adam" "--checkpoint $work/c" "--save-best $work/b" "--keep-best" "--patience 1"
    "--stop-at 0.25" "--stop-at 0.25 --metric loss" "--validation 20" "--eval-every 2" "--fail-on-nan"
    "--data-sink off --loop-size 1" "--schedule cosine" "--precision mixed_bf16"
    "--save $work/s" "--metrics $work/m" "--summary $work/y")
  [ -z "$small" ] || flags=("${flags[@]:0:3}")
  local flag own
  for flag in "${flags[@]}"; do
    new_case
    # Rank 1 has the flag in place of what the others give it.
    own=" ${training[*]} --batch 20 --steps 40 "
    for word in $flag; do [[ $word == --* ]] && own=$(sed -E "s/ $word [^ ]+ / /" <<<"$own"); done
    timeout -k 5 $((limit * 2 + 60)) "$keel" launch -n 2 -- bash -c 'test $RANK_ID = 0 && exec "$0" $1; exec "$0" $2' \
      "$keel" "${training[*]} --batch 20 --steps 40" "$own $flag" >"$case/out" 2>"$case/err"
    code=$?
    if [ $code = 3 ] && grep -q '_DIVERGED(rank 0 .*, rank 1 ' "$case/err" && ! grep -q TIMEOUT "$case/err"; then count "mismatch" yes
    else count "mismatch" "$flag: exit code $code"; fi
    rm -rf "$case"
  done
}

# In a network of its own, where the bytes that a socket holds are few and the link is slow or goes down.
networks() {
  if ! unshare -n ip link set lo up 2>/dev/null; then
    echo "skipped: no network namespace may be made here"
    return
  fi
  reference_of 40
  local setup name
  local -x KEEL_RANK_TRANSPORT=sockets
  for name in "small socket buffers" "slow link"; do
    setup='sysctl -qw net.ipv4.tcp_wmem="4096 4096 4096" net.ipv4.tcp_rmem="4096 4096 4096"'
    [ "$name" = "slow link" ] && setup='tc qdisc add dev lo root tbf rate 50mbit burst 64kb latency 400ms'
    new_case
    unshare -n bash -c 'ip link set lo up && '"$setup"' && exec timeout -k 5 200 "$0" launch -n 2 -- "$0" "$@"' "$keel" \
      "${training[@]}" --batch 20 --steps 40 --summary "$case/summary" >"$case/out" 2>"$case/err"
    code=$?
    if [ $code = 0 ] && [ "$(sha_in "$case/summary")" = "$expected" ]; then count "$name" yes
    else count "$name" "exit code $code"; fi
    rm -rf "$case"
  done
  link_down
}

# Two ranks that meet over a pair of virtual links, one of which goes down. The second one is not told of its own address.
link_down() {
  new_case
  unshare -n bash -c '
    unshare -n sleep 1000 & other=$!
    end() { kill $other 2>/dev/null; wait $other 2>/dev/null; }
    sleep 0.3
    ip link set lo up && ip link add name keel0 type veth peer name keel1 && ip link set keel1 netns $other || { end; exit 77; }
    ip addr add 10.9.0.1/24 dev keel0 && ip link set keel0 up
    nsenter -t $other -n bash -c "ip link set lo up && ip addr add 10.9.0.2/24 dev keel1 && ip link set keel1 up" || { end; exit 77; }
    export CM_CHIEF_IP=10.9.0.1 CM_CHIEF_PORT=12345 CM_WORKER_SIZE=2 HCCL_EXEC_TIMEOUT=5 HCCL_CONNECT_TIMEOUT=60
    folder=$1; shift
    RANK_ID=0 CM_WORKER_IP=10.9.0.1 timeout -k 5 120 "$0" "$@" --checkpoint "$folder/saved" --save-every 20 & first=$!
    RANK_ID=1 timeout -k 5 120 nsenter -t $other -n "$0" "$@" --checkpoint "$folder/other" --save-every 20 & second=$!
    for i in $(seq 1200); do ls "$folder/saved" 2>/dev/null | grep -q ^step- && break; sleep 0.05; done
    ip link set keel0 down
    wait $first; codes=$?; wait $second; codes="$codes $?"
    end
    echo "exit codes $codes"
    [ "$codes" = "3 3" ]' "$keel" "$case" "${training[@]}" --batch 20 --steps 100000000 >"$case/out" 2>"$case/err"
  code=$?
  if [ $code = 77 ]; then echo "skipped: no virtual links may be made here"
  elif [ $code = 0 ] && grep -q 'in step [0-9]*, at ' "$case/err"; then count "link down" yes
  else count "link down" "$(cat "$case/out")"; fi
  rm -rf "$case"
}

if "$keel" launch -n 2 -- true 2>&1 | grep -q "has no Gloo"; then
  echo "skipped: this build has no Gloo"
  exit 0
fi
make_data
moments=("rendezvous" "in a bucket" "between steps" "in a save" "at exit")
transports=(memory sockets)
for ((i = 0; i < kills; i++)); do KEEL_RANK_TRANSPORT=${transports[i / 5 % 2]} lose KILL "${moments[i % 5]}"; done
for ((i = 0; i < stops; i++)); do KEEL_RANK_TRANSPORT=${transports[i / 2 % 2]} lose STOP "${moments[(i + 1) % 3]}"; done
kill_launcher
signal_group
without_launcher
strangers
mismatches
[ -n "$small" ] || networks

failed=0
printf '%-40s %6s %12s\n' "fault" "cases" "as expected"
for kind in "${order[@]}"; do
  printf '%-40s %6d %12d\n' "$kind" "${runs[$kind]}" "${met[$kind]:-0}"
  [ "${runs[$kind]}" = "${met[$kind]:-0}" ] || failed=1
done
exit $failed
