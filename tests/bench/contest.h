// A contest: several ways to do the same work, timed in turns in one process, so that a machine
// that is slower for a while is slower for all of them. Only ratios of one contest mean anything.
// One thread at a time.
#ifndef KEEL_TESTS_BENCH_CONTEST_H
#define KEEL_TESTS_BENCH_CONTEST_H

#include <functional>
#include <string>
#include <vector>

namespace keel_bench {

struct Contestant {
  std::string name;
  std::function<void()> run;  // the work once
  double work = 0;  // done by run(), in the contest's unit; 0: as much as the contest says
};

struct Result {
  std::string name;
  double rate = 0;    // median of the rounds: work a second
  double spread = 0;  // half the distance between the quartiles, as a share of the median
};

// `work` in whatever unit the rates shall have (flop, bytes).
std::vector<Result> run_contest(const std::vector<Contestant>& contestants, double work,
                                int rounds);

// A row of the table: each contestant's rate, times `scale`, and its ratio to the first one's.
void print_row(const std::string& title, const std::vector<Result>& results, double scale,
               const char* unit);

}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_CONTEST_H
