// Ranks, or two trainings, wrote over each other's rows in one summary; a full disk left a part of
// a row and no end of the array, and a limit on file sizes ended the process; and a summary larger
// than the read budget could neither be gone on in nor replaced.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "keel/backends/registry.h"
#include "keel/core/base/read_budget.h"
#include "keel/core/group/group_agreement.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/runtime/summary_file.h"
#include "keel/graph/runtime/trainer.h"

#include "support/temp_folder.h"
#include "unit/ranks_for_tests.h"
#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::TempFolder;

constexpr const char* kSummaryNames[] = {"s.csv", "s.json"};

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The totals of its rows. Throws where it is no whole file.
std::vector<double> summed_totals(const std::string& path) {
  std::vector<double> totals;
  if (path.ends_with(".json")) {
    for (const auto& row : nlohmann::json::parse(content_of(path)))
      totals.push_back(row.at("total").get<double>());
    return totals;
  }
  std::istringstream lines(content_of(path));
  std::string line;
  if (!std::getline(lines, line) || line != "step,total") throw Error("no head: " + line);
  while (std::getline(lines, line)) totals.push_back(std::stod(line.substr(line.find(',') + 1)));
  return totals;
}

void add_total(SummaryFile& file, int64_t step, double total) { file.add(step, {&total, 1}); }

// A summary of the totals 1 to `rows` at the steps of these numbers, from the beginning.
void write_totals(const std::string& path, int64_t rows) {
  SummaryFile file(path, {"total"}, 0);
  for (int64_t step = 1; step <= rows; ++step) add_total(file, step, static_cast<double>(step));
}

// While it lives no file may grow over so many bytes, as on a full disk. Nobody handles the signal.
class SmallDisk {
 public:
  explicit SmallDisk(size_t bytes) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &usual_) == 0);
    const rlimit limit{bytes, usual_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~SmallDisk() { setrlimit(RLIMIT_FSIZE, &usual_); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit usual_{};
};

class SmallReads {
 public:
  SmallReads() { set_read_budget(uint64_t{1} << 20); }
  ~SmallReads() { set_read_budget(before_); }
  SmallReads(const SmallReads&) = delete;
  SmallReads& operator=(const SmallReads&) = delete;

 private:
  uint64_t before_ = read_budget();
};

}  // namespace

TEST_CASE("of ranks that train together the first alone writes the summary") {
  for (const char* name : kSummaryNames) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string path = folder.file(name);
    std::vector<double> expected;
    none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      HalvingModel model;
      named(model.total, "total");
      Session session(model.graph, device("ref"));
      // The numbers of the ranks have other lengths.
      const float begin = group->rank() == 0 ? 8.0f : 123456.0f;
      session.write(model.w, Tensor::of<float>({2}, {begin, 16}));
      Trainer trainer(session, {.update = model.update,
                                .fetches = {model.total},
                                .source = halving_feeder(device("ref"), 1000),
                                .agreement = make_group_agreement(group)});
      TrainOptions options{.steps = 50, .loop_size = 7, .group = group};
      options.hooks = {SummaryHook{.path = path}};
      options.on_step = [&](int64_t, std::span<const double> values) {
        if (group->rank() == 0) expected.push_back(values[0]);
        return LoopControl::kContinue;
      };
      trainer.fit(options);
      options.hooks = {SummaryHook{.path = folder.file(std::to_string(group->rank()) + name)}};
      options.on_step = {};
      trainer.fit(options);
    }));
    CHECK(summed_totals(path) == expected);
    CHECK(std::filesystem::exists(folder.file(std::string("0") + name)));
    CHECK_FALSE(std::filesystem::exists(folder.file(std::string("1") + name)));
  }
}

TEST_CASE("all ranks refuse a summary that none can write") {
  const TempFolder folder;
  std::vector<std::string> errors(2);
  // Their group has failed for them, which they hear when they leave it.
  run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    HalvingModel model;
    named(model.total, "total");
    Session session(model.graph, device("ref"));
    Trainer trainer(session, {.update = model.update,
                              .fetches = {model.total},
                              .source = halving_feeder(device("ref"), 1000),
                              .agreement = make_group_agreement(group)});
    TrainOptions options{.steps = 5, .group = group};
    options.hooks = {SummaryHook{.path = folder.file("s.txt")}};
    errors[static_cast<size_t>(group->rank())] = error_of([&] { trainer.fit(options); });
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE(error.find("expected a name that ends in .csv or .json") != std::string::npos,
                  error);
}

TEST_CASE("a summary that is being written is refused to another training") {
  for (const char* name : kSummaryNames) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string path = folder.file(name);
    {
      SummaryFile first(path, {"total"}, 0);
      const std::string error = error_of([&] { SummaryFile(path, {"total"}, 0); });
      CHECK_MESSAGE(contains(error, path + ": another training writes it"), error);
      add_total(first, 1, 1);
    }
    CHECK(summed_totals(path) == std::vector<double>{1});
    SummaryFile second(path, {"total"}, 1);
    add_total(second, 2, 2);
    CHECK(summed_totals(path) == std::vector<double>{1, 2});
  }
}

TEST_CASE("a row that a full disk has no room for leaves those before it whole") {
  for (const char* name : kSummaryNames) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string path = folder.file(name);
    std::string error;
    const auto try_to_add = [&](SummaryFile& file, int64_t step, size_t room) {
      const SmallDisk disk(room);
      error = error_of([&] { add_total(file, step, 0.123456789); });
    };
    SummaryFile file(path, {"total"}, 0);
    try_to_add(file, 1, 4);  // not even the head of a table
    CHECK_MESSAGE(contains(error, path + ": cannot be written: File too large"), error);
    CHECK(content_of(path).empty());
    add_total(file, 1, 1);
    add_total(file, 2, 2);
    const std::string before = content_of(path);
    for (const size_t more : {size_t{0}, size_t{1}, size_t{3}, size_t{8}}) {
      try_to_add(file, 3, before.size() + more);
      CHECK(contains(error, "File too large"));
      CHECK(content_of(path) == before);
    }
    add_total(file, 3, 3);
    CHECK(summed_totals(path) == std::vector<double>{1, 2, 3});
  }
}

TEST_CASE("the first row of a resumed training that finds no room leaves the kept ones whole") {
  for (const char* name : kSummaryNames) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string path = folder.file(name);
    write_totals(path, 2);
    const std::string until_2 = content_of(path);
    write_totals(path, 4);
    SummaryFile file(path, {"total"}, 2);
    std::string error;
    {
      const SmallDisk disk(until_2.size() + 3);
      error = error_of([&] { add_total(file, 3, 0.123456789); });
    }
    CHECK_MESSAGE(contains(error, "File too large"), error);
    CHECK(content_of(path) == until_2);
  }
}

TEST_CASE("a summary over the read budget is gone on in and replaced") {
  for (const char* name : kSummaryNames) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string path = folder.file(name);
    constexpr int64_t kRows = 200'000;
    {
      std::ofstream file(path, std::ios::binary);
      const bool table = path.ends_with(".csv");
      file << (table ? "step,total\n" : "[\n");
      for (int64_t i = 1; i <= kRows; ++i) {
        if (table)
          file << i << "," << i << "\n";
        else
          file << "{\"step\": " << i << ", \"total\": " << i << (i < kRows ? "},\n" : "}\n]\n");
      }
    }
    REQUIRE(std::filesystem::file_size(path) > size_t{2} << 20);
    const SmallReads budget;
    {
      SummaryFile file(path, {"total"}, kRows - 10);
      add_total(file, kRows - 9, 0.5);
    }
    const std::vector<double> totals = summed_totals(path);
    REQUIRE(totals.size() == kRows - 9);
    CHECK(totals.front() == 1);
    CHECK(totals[kRows - 11] == static_cast<double>(kRows - 10));
    CHECK(totals.back() == 0.5);
    write_totals(path, 2);
    CHECK(summed_totals(path) == std::vector<double>{1, 2});
  }
}

TEST_CASE("a summary with a line over the read budget is refused and stays") {
  const TempFolder folder;
  const std::string text = "step,total\n1,1" + std::string(size_t{2} << 20, '0') + "\n";
  const std::string path = folder.write("s.csv", text);
  const SmallReads budget;
  const std::string error = error_of([&] { SummaryFile(path, {"total"}, 5); });
  CHECK_MESSAGE(contains(error, path + ": a line of it: reading it would take more than 1 MiB"),
                error);
  CHECK((content_of(path) == text));
}

TEST_SUITE_END();
