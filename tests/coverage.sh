#!/usr/bin/env bash
# Builds the coverage preset, runs the suite in it and holds what ran against thresholds: of the library as a
# whole, and of each file that reads what strangers wrote or writes what must survive. Branches are the source's
# own: each condition, each operand of && and ||, each case, as clang counts them.
#   tests/coverage.sh                needs clang and llvm (Debian's packages of these names)
set -eu
cd "$(dirname "$0")/.."
build=build/coverage
least_lines=97     # per cent of all lines
least_branches=90  # per cent of all branches
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
# Counts of an earlier run would add up with this one's. Four files for each binary let as many processes that end
# together add their counts without waiting for each other.
rm -rf "$build/profiles"
failed=0
# Trainings on real MNIST take long in this build and reach nothing that other tests do not.
env -u KEEL_MNIST_DIR LLVM_PROFILE_FILE="$PWD/$build/profiles/%4m.profraw" \
  ctest --preset coverage --parallel "$(nproc)" || failed=1

llvm-profdata merge -sparse -o "$build/coverage.profdata" "$build"/profiles/*.profraw
llvm-cov export -format=lcov -instr-profile "$build/coverage.profdata" "$build/lib/libkeel.so" \
  > "$build/coverage.lcov"

# of_file FILE|"" LEAST_LINES LEAST_BRANCHES: prints the share of FILE's lines and branches that ran, or of all the
# library's; below a threshold it names FILE's lines that lack a branch and returns 1. Headers are counted under
# the link by which they are included.
of_file() {
  awk -v root="$PWD/" -v wanted="$1" -v least_lines="$2" -v least_branches="$3" '
    /^SF:/ {
      file = substr($0, 4)
      sub("^" root, "", file)
      sub("^build/coverage/(\\.\\./\\.\\./|include/keel/)", "", file)
      counts = wanted == "" ? file ~ /^(core|graph|ops|backends|data)\// : file == wanted
      next
    }
    !counts { next }
    { split($0, part, /[:,]/) }
    part[1] == "LF" { lines += part[2] }
    part[1] == "LH" { lines_run += part[2] }
    part[1] == "BRF" { branches += part[2] }
    part[1] == "BRH" { branches_run += part[2] }
    part[1] == "BRDA" && wanted != "" && (part[5] == "0" || part[5] == "-") { lacking[part[2]]++; order[++lacks] = part[2] }
    END {
      if (lines == 0 || branches == 0) { print "coverage: nothing of " wanted " was counted"; exit 1 }
      of_lines = 100 * lines_run / lines
      of_branches = 100 * branches_run / branches
      printf "coverage: %-34s lines %5.1f %% of %d, branches %5.1f %% of %d\n", wanted == "" ? "all" : wanted,
        of_lines, lines, of_branches, branches
      if (of_lines >= least_lines && of_branches >= least_branches) exit 0
      printf "coverage: demanded are lines %d %%, branches %d %%", least_lines, least_branches
      for (i = 1; i <= lacks; ++i) if (!(order[i] in told)) {
        told[order[i]] = 1
        printf "%s%d (%d)", i == 1 ? "; lines that lack branches: " : ", ", order[i], lacking[order[i]]
      }
      print ""
      exit 1
    }' "$build/coverage.lcov"
}

of_file "" "$least_lines" "$least_branches" || failed=1
for file in "${guarded[@]}"; do
  of_file "$file" 0 "$least_guarded" || failed=1
done
exit "$failed"
