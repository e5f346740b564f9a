// `keel profile` refused what was written with it, where the table of launches had more cells than
// a table may have of which one step is shown; it showed a table that ended within the first step,
// and negative times, as if nothing were wrong; and of the ranks' folders it showed those before
// the first that was missing, without a word of the others. It had 0.00 for figures that the table
// of launches does not have, and said of a folder with other files of a profile that it holds none.
// A profile of which one file could not be written was left among the files of an older one. Names
// of 200 kB made advice that was not read back, and a cell that is no number was not told by its
// row.
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/backends/npu/profile/profile.h"
#include "keel/backends/registry.h"
#include "keel/core/base/csv.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "unit/npu_profile_for_tests.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;
using npu::profile_table;
using npu_profile_test::Folder;

void write(const Folder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder.path() + "/" + name, std::ios::binary) << text;
}

// A chain of products, each a launch of its own.
struct Chain {
  explicit Chain(int products) {
    const Value w = graph.state("w", zeros({16, 16}, f32));
    Value next = w;
    for (int i = 0; i < products; ++i) next = matmul(next, w);
    session.emplace(graph, device("npu:0"),
                    SessionOptions{.device_options = npu::options("ascend910b1")});
    loop.emplace(session->sink({.update = Update{{{w, next}}}}));
  }
  void profile(const Folder& folder, int64_t steps) const {
    npu::write_profile(loop->program(), {.directory = folder.path(), .last_step = steps});
  }
  Graph graph;
  std::optional<Session> session;
  std::optional<Loop> loop;
};

// The text without its last lines.
std::string without_last(std::string text, int lines) {
  for (int i = 0; i < lines; ++i) {
    text.pop_back();
    text.resize(text.rfind('\n') + 1);
  }
  return text;
}

size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a profile of more launches than a table may have cells is shown") {
  const Chain chain(60);
  const Folder folder("profile_many_rows");
  chain.profile(folder, 1000);
  const std::string text = folder.read("op_summary.csv");
  REQUIRE(contains(error_of([&] { parse_csv(text, "x"); }), "at most 2097152 cells"));
  const std::string shown = profile_table(folder.path());
  CAPTURE(shown);
  CHECK(contains(shown, "us in " + std::to_string((lines_of(text) - 1) / 1000) + "):"));
}

TEST_CASE("tables of a profile that were cut at the end of a row are refused") {
  const Chain chain(5);
  for (const int64_t steps : {1, 2, 3}) {
    CAPTURE(steps);
    const Folder folder("profile_cut_rows");
    chain.profile(folder, steps);
    const std::string good = folder.read("op_summary.csv");
    const size_t launches = lines_of(good) - 1;
    REQUIRE(launches % static_cast<size_t>(steps) == 0);
    REQUIRE(profile_table(folder.path()) != "");
    for (size_t cut = 1; cut < launches; ++cut) {
      CAPTURE(cut);
      write(folder, "op_summary.csv", without_last(good, static_cast<int>(cut)));
      const std::string error = error_of([&] { profile_table(folder.path()); });
      CHECK_MESSAGE(contains(error, "op_summary.csv: one of the tables was cut short"), error);
      CHECK(contains(error, "write the profile anew"));
    }
    write(folder, "op_summary.csv", good);
    if (steps == 1) continue;
    // Without statistics the table of steps tells all the same of a step that is missing.
    write(folder, "step_trace.csv", without_last(folder.read("step_trace.csv"), 1));
    std::filesystem::remove(folder.path() + "/op_statistic.csv");
    CHECK(contains(error_of([&] { profile_table(folder.path()); }), "was cut short"));
  }
}

TEST_CASE("negative times of a profile are refused") {
  const Chain chain(5);
  const Folder folder("profile_negative_times");
  chain.profile(folder, 2);
  for (const auto& cell : {std::pair{"op_summary.csv", "Task Duration(us)"},
                           std::pair{"op_summary.csv", "Task Start Time"},
                           std::pair{"op_summary.csv", "aic_mac_ratio"},
                           std::pair{"step_trace.csv", "Iteration Time(us)"},
                           std::pair{"step_trace.csv", "FP to BP Time(us)"}}) {
    const char *file = cell.first, *column = cell.second;
    CAPTURE(column);
    const std::string good = folder.read(file);
    auto rows = parse_csv(good, file);
    const auto at = std::find(rows[0].begin(), rows[0].end(), column) - rows[0].begin();
    rows[1][static_cast<size_t>(at)] = "-3.5";
    std::string bad;
    for (const CsvRow& row : rows) bad += write_csv_row(row);
    write(folder, file, bad);
    const std::string error = error_of([&] { profile_table(folder.path()); });
    CHECK_MESSAGE(contains(error, std::string(file) + ": row 2, column " + column +
                                      ": expected a number that is not negative, got -3.5"),
                  error);
    write(folder, file, good);
  }
  CHECK(profile_table(folder.path()) != "");
}

TEST_CASE("a cell of a profile that is no number is told by its row and column") {
  const Chain chain(5);
  const Folder folder("profile_no_number");
  chain.profile(folder, 1);
  auto rows = parse_csv(folder.read("op_summary.csv"), "x");
  const auto at = std::find(rows[0].begin(), rows[0].end(), "Task Duration(us)") - rows[0].begin();
  rows[3][static_cast<size_t>(at)] = "nan";
  std::string bad;
  for (const CsvRow& row : rows) bad += write_csv_row(row);
  write(folder, "op_summary.csv", bad);
  const std::string error = error_of([&] { profile_table(folder.path()); });
  CHECK_MESSAGE(
      contains(error, "op_summary.csv: row 4, column Task Duration(us): expected a number"), error);
}

TEST_CASE("advice on names of any length is read back") {
  Graph graph;
  const Value w = graph.state("w", zeros({16, 16}, f32));
  Value next = w;
  for (int i = 0; i < 10; ++i)
    next = named(matmul(next, w), std::string(200'000, 'n') + std::to_string(i));
  Session session(graph, device("npu:0"), {.device_options = npu::options("ascend910b1")});
  const Loop loop = session.sink({.update = Update{{{w, next}}}});
  const Folder folder("profile_long_names");
  npu::write_profile(loop.program(), {.directory = folder.path(), .last_step = 1});
  CHECK(folder.read("advice.txt").size() < size_t{1} << 20);
  CHECK(error_of([&] { profile_table(folder.path()); }) == "");
}

TEST_CASE("rows of a profile that are damaged are named") {
  const Chain chain(5);
  const Folder folder("profile_damaged_rows");
  chain.profile(folder, 1);
  const std::string good = folder.read("op_summary.csv");
  const size_t third = good.find('\n', good.find('\n') + 1) + 1;
  const auto error = [&](const std::string& inserted) {
    std::string bad = good;
    write(folder, "op_summary.csv", bad.insert(third, inserted));
    return error_of([&] { profile_table(folder.path()); });
  };
  CHECK(contains(error("1,2\n"), "op_summary.csv: row 3: expected 46 fields, got 2"));
  CHECK(contains(error("\"1"), "op_summary.csv: row 3"));
  CHECK(contains(error("1\"x,"), "op_summary.csv: row 3"));
  CHECK(contains(error("\"1\"x,"), "op_summary.csv: row 3"));
}

TEST_CASE("figures that a profile does not have are not shown as 0") {
  const Chain chain(2);
  const auto shown = [&](const npu::ProfilingOptions& profiling) {
    const Folder folder("profile_no_figures");
    npu::write_profile(chain.loop->program(), {.directory = folder.path(), .profiling = profiling});
    return profile_table(folder.path());
  };
  CHECK_FALSE(contains(shown({}), "N/A"));
  const std::string none = "    N/A    N/A    N/A  N/A\n";
  for (const npu::AicMetrics metrics :
       {npu::AicMetrics::kMemory, npu::AicMetrics::kArithmeticUtilization}) {
    const std::string text = shown({.aic_metrics = metrics});
    CAPTURE(text);
    CHECK(contains(text, none));
    CHECK_FALSE(contains(text, "    N/A" + none));
    CHECK_FALSE(contains(text, " 0.00 "));
  }
  const std::string names = shown({.task_trace = npu::TaskTrace::kL0});
  CAPTURE(names);
  CHECK(contains(names, "    N/A" + none));  // neither the number of blocks
  CHECK_FALSE(contains(names, " 0.00 "));
}

TEST_CASE("files of a profile without its tables are named") {
  const Chain chain(2);
  const Folder folder("profile_other_files");
  npu::ProfilingOptions profiling{.training_trace = false, .aicpu = true, .runtime_api = true};
  profiling.task_trace = npu::TaskTrace::kOff;
  npu::write_profile(chain.loop->program(), {.directory = folder.path(), .profiling = profiling});
  CHECK(error_of([&] { profile_table(folder.path()); }) ==
        folder.path() +
            ": the table cannot be made: neither step_trace.csv nor op_summary.csv is there, but "
            "only aicpu.csv, api_statistic.csv; profile with training_trace or task_trace on "
            "(--profiling-options), which write them");
}

TEST_CASE("a profile of which one file cannot be written leaves the older one as it was") {
  const Chain chain(2), other(5);
  const Folder folder("profile_one_file_fails");
  chain.profile(folder, 1);
  std::filesystem::remove(folder.path() + "/advice.txt");
  std::filesystem::create_directory(folder.path() + "/advice.txt");
  const std::string before = folder.read("op_summary.csv"), steps = folder.read("step_trace.csv");
  CHECK(contains(error_of([&] { other.profile(folder, 2); }),
                 "advice.txt: expected a regular file, got a folder"));
  CHECK(folder.read("op_summary.csv") == before);
  CHECK(folder.read("step_trace.csv") == steps);
  std::filesystem::remove(folder.path() + "/advice.txt");
  other.profile(folder, 2);
  CHECK(folder.read("op_summary.csv") != before);
  size_t files = 0;  // no temporary one among them
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.is_regular_file() ? 1 : 0;
  CHECK(files == 5);
}

TEST_CASE("profiles of all ranks that are there are shown and those that are not are named") {
  const Chain chain(2);
  const Folder folder("profile_ranks_missing");
  const auto add = [&](const char* name) {
    npu::write_profile(chain.loop->program(), {.directory = folder.path() + "/" + name});
  };
  add("rank_1");
  std::string shown = profile_table(folder.path());
  CHECK(shown.starts_with("folders that are missing: rank_0\n\n== rank 1\nsteps"));
  add("rank_3");
  add("rank_07");  // is of no rank
  add("rank_x");
  shown = profile_table(folder.path());
  CHECK(contains(shown, "folders that are missing: rank_0 rank_2\n"));
  CHECK(contains(shown, "\n== rank 1\n"));
  CHECK(contains(shown, "\n== rank 3\n"));
  CHECK_FALSE(contains(shown, "== rank 7"));
  add("rank_10");
  CHECK(contains(profile_table(folder.path()), "missing: rank_0 rank_2 rank_4 to rank_9\n"));
  for (const char* name : {"rank_0", "rank_2"}) add(name);
  for (const char* name : {"rank_10", "rank_07", "rank_x"})
    std::filesystem::remove_all(folder.path() + "/" + name);
  CHECK(profile_table(folder.path()).starts_with("== rank 0\n"));
}

TEST_SUITE_END();

}  // namespace keel
