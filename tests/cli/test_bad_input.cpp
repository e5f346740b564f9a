#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/refusals.h"
#include "cli/tool.h"
#include "support/scale.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
namespace fs = std::filesystem;

// One line on stderr that holds each of `parts`.
void check_error(const ToolResult& result, int exit_code, const Words& parts) {
  CHECK(result.exit_code == exit_code);
  const auto lines = lines_of(result.err);
  REQUIRE_MESSAGE(lines.size() == 1, result.err);
  CHECK(result.err.back() == '\n');
  CHECK_MESSAGE(lines[0].rfind("keel: error: ", 0) == 0, lines[0]);
  for (const std::string& part : parts) {
    CHECK_MESSAGE(lines[0].find(part) != std::string::npos, lines[0] << " lacks " << part);
  }
  if (exit_code == kWrongArgument) CHECK(result.out.empty());
}

// `keel train` with all its files asked for: refused, and none of them there afterwards.
void check_training_refused(const Words& words, int exit_code, const Words& parts,
                            const Variables& variables = {}) {
  const TempFolder out;
  Words all = {"train",  "--summary",       out.file("summary"), "--metrics", out.file("metrics"),
               "--save", out.file("states")};
  all.insert(all.end(), words.begin(), words.end());
  CAPTURE(join(words));
  check_error(run_tool(all, variables), exit_code, parts);
  CHECK_MESSAGE(out.empty(), "a file was written");
}

const DataSet& small_set() {
  static const DataSet set(300, 100);
  return set;
}

// A folder with the small set, one of its files replaced by other bytes (or left out).
class BadFolder {
 public:
  BadFolder() { small_set().write_to(folder_); }
  void replace(const std::string& name, const std::string& bytes) const {
    remove(fs::path(name).extension() == ".gz" ? fs::path(name).stem().string() : name);
    folder_.write(name, bytes);
  }
  void remove(const std::string& name) const {
    fs::remove(folder_.file(name));
    fs::remove(folder_.file(name + ".gz"));
  }
  std::string path() const { return folder_.path(); }

  void check(const Words& parts) const {
    check_training_refused({"--data", path(), "--steps", "2", "--batch", "50"}, kFailed, parts);
  }
  void check(const std::string& name, const std::string& bytes, const Words& parts) const {
    replace(name, bytes);
    check(parts);
  }

 private:
  TempFolder folder_;
};

}  // namespace

TEST_CASE("bad input: the small set itself trains") {
  const BadFolder data;
  const ToolResult result =
      run_tool({"train", "--data", data.path(), "--steps", "2", "--batch", "300"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("bad input: numbers that are wrong in themselves") {
  struct Row {
    const char* flag;
    Words values;
  };
  const Row rows[] = {
      {"--batch", {"0", "-1", "ten", "1.5", "", " 5", "5x", "99999999999999999999"}},
      {"--loop-size", {"0", "-1", "ten", "1e3", "all of it"}},
      {"--epochs", {"0", "-1", "ten"}},
      {"--steps", {"0", "-1", "ten"}},
      {"--threads", {"0", "-1", "ten", "1000000"}},
      {"--seed", {"-1", "ten", "99999999999999999999"}},
      {"--lr", {"-0.5", "fast", "nan", "inf", "1e"}}};
  for (const Row& row : rows) {
    for (const std::string& value : row.values) {
      // A value that begins with a dash in both ways of writing it.
      check_training_refused({row.flag + ("=" + value)}, kWrongArgument, {row.flag});
      if (!value.empty())
        check_training_refused({row.flag, value}, kWrongArgument, {row.flag, value});
    }
  }
}

TEST_CASE("bad input: NPU_LOOP_SIZE must be a count even where the flag is given") {
  for (const char* value : {"abc", "0", "-1", "2.5", "7 "}) {
    const Variables variables = {{"NPU_LOOP_SIZE", value}};
    check_training_refused({"--steps", "1"}, kWrongArgument, {"NPU_LOOP_SIZE", value}, variables);
    check_training_refused({"--steps", "1", "--loop-size", "5"}, kWrongArgument,
                           {"NPU_LOOP_SIZE", value}, variables);
  }
}

TEST_CASE("bad input: KEEL_ISA that does not exist") {
  for (const char* backend : {"cpu", "npu"}) {
    check_training_refused({"--steps", "1", "--backend", backend}, kWrongArgument,
                           {"KEEL_ISA", "'mmx'"}, {{"KEEL_ISA", "mmx"}});
  }
}

TEST_CASE("bad input: KEEL_LOG that names no level") {
  for (const char* command : {"train", "info", "graph", "bench", "calibrate"}) {
    check_error(run_tool({command}, {{"KEEL_LOG", "verbose"}}), kWrongArgument,
                {"KEEL_LOG", "trace, debug, info, warn, error, off", "'verbose'"});
  }
}

TEST_CASE("bad input: a read budget that is no count") {
  for (const char* value : {"0", "-1", "many", "99999999999999999999"}) {
    check_training_refused({"--steps", "1", "--read-budget", value}, kWrongArgument,
                           {"--read-budget", value});
    check_training_refused({"--steps", "1"}, kWrongArgument, {"KEEL_READ_BUDGET_MIB", value},
                           {{"KEEL_READ_BUDGET_MIB", value}});
  }
}

TEST_CASE("bad input: profiles with a damaged number are the file's fault") {
  const TempFolder profile;
  const BadFolder data;
  REQUIRE(run_tool({"train", "--quiet", "--data", data.path(), "--batch", "50", "--steps", "2",
                    "--profile", profile.path()})
              .exit_code == 0);
  REQUIRE(run_tool({"profile", profile.path()}).exit_code == 0);
  for (const char* name : {"op_summary.csv", "step_trace.csv"}) {
    const std::string good = read_text(profile.file(name));
    // Each row's numbers, one after the other.
    for (size_t at = good.find('\n'); at < good.size(); at += good.size() / 9) {
      const size_t digit = good.find_first_of("0123456789", at);
      if (digit == std::string::npos) break;
      std::string bad = good;
      bad[digit] = 'x';
      profile.write(name, bad);
      const int exit_code = run_tool({"profile", profile.path()}).exit_code;
      CHECK_MESSAGE(exit_code < 2, name << " with an x at byte " << digit);
    }
    std::string bad = good;
    std::replace(bad.begin() + static_cast<std::ptrdiff_t>(good.find('\n')), bad.end(), '.', 'x');
    profile.write(name, bad);
    check_error(run_tool({"profile", profile.path()}), kFailed, {name});
    profile.write(name, good);
  }
}

TEST_CASE("bad input: names that do not exist suggest the nearest") {
  check_training_refused({"--backend", "npv"}, kWrongArgument,
                         {"--backend", "'npv'", "ref", "cpu", "'npu'?"});
  check_training_refused({"--backend", "cuda-12"}, kWrongArgument, {"--backend", "'cuda-12'"});
  check_training_refused({"--model", "sofmax"}, kWrongArgument,
                         {"--model", "'sofmax'", "'softmax'?"});
  check_training_refused({"--optimizer", "adamm"}, kWrongArgument,
                         {"--optimizer", "'adamm'", "'adam'?"});
  check_training_refused({"--bach", "5"}, kWrongArgument, {"--bach", "'--batch'?"});
  check_training_refused({"--loopsize=5"}, kWrongArgument, {"--loopsize", "'--loop-size'?"});
  check_training_refused({"--zzzzzzzzzz"}, kWrongArgument, {"--zzzzzzzzzz"});
  check_training_refused({"-q"}, kWrongArgument, {"-q"});
  check_training_refused({"digits"}, kWrongArgument, {"'digits'"});
  check_error(run_tool({"trian"}), kWrongArgument, {"'trian'", "'train'?"});
  check_error(run_tool({"--train"}), kWrongArgument, {"'--train'"});
  check_error(run_tool({"info", "--jsom"}), kWrongArgument, {"--jsom", "'--json'?"});
  check_error(run_tool({"graph", "--model", "mpl"}), kWrongArgument, {"'mpl'", "'mlp'?"});
  check_error(run_tool({"graph", "--batch", "0"}), kWrongArgument, {"--batch", "'0'"});
}

TEST_CASE("bad input: flags that contradict each other or lack a value") {
  check_training_refused({"--epochs", "2", "--steps", "5"}, kWrongArgument,
                         {"--epochs", "--steps"});
  check_training_refused({"--batch", "5", "--batch", "6"}, kWrongArgument,
                         {"--batch", "more than once"});
  check_training_refused({"--steps"}, kWrongArgument, {"steps"});
  check_training_refused({"--quiet=yes"}, kWrongArgument, {"yes"});
  check_training_refused({"--data", ""}, kWrongArgument, {"--data"});
  for (const char* flag : {"--summary", "--metrics", "--save"}) {
    check_error(run_tool({"train", "--steps", "1", flag, ""}), kWrongArgument, {flag});
  }
}

TEST_CASE("bad input: without a command the usage comes on stderr") {
  const ToolResult result = run_tool({});
  CHECK(result.exit_code == kWrongArgument);
  CHECK(result.out.empty());
  CHECK(result.err.find("usage: keel COMMAND") != std::string::npos);
}

TEST_CASE("bad input: a batch larger than the data") {
  const BadFolder data;
  for (const char* batch : {"301", "1000000", "1000000000000"}) {
    check_training_refused({"--data", data.path(), "--steps", "1", "--batch", batch}, kFailed,
                           {"--batch", "300", batch});
  }
  check_training_refused({"--steps", "1", "--batch", "60001"}, kFailed,
                         {"--batch", "60000", "60001"});
}

TEST_CASE("bad input: folders and files that are not there") {
  const BadFolder data;
  const std::string missing = data.path() + "/no/such";
  check_training_refused({"--data", missing}, kFailed, {missing, "No such file"});
  const std::string a_file = data.path() + "/" + kTrainImages;
  check_training_refused({"--data", a_file}, kFailed, {a_file, "not a folder"});
  for (const std::string& name : {kTrainImages, kTrainLabels, kTestImages, kTestLabels}) {
    const BadFolder lacking;
    lacking.remove(name);
    lacking.check({lacking.path(), name, name + ".gz"});
    fs::create_directory(lacking.path() + "/" + name);
    lacking.check({name});
  }
}

TEST_CASE("bad input: gzip files cut at many offsets or damaged") {
  const BadFolder data;
  const std::string packed = gzip(idx_bytes({300}, small_set().train_classes));
  const size_t stride = long_scale() ? 1 : 9;
  for (size_t size = 0; size < packed.size(); size += size < 20 ? 3 : stride) {
    CAPTURE(size);
    data.check(kTrainLabels + ".gz", packed.substr(0, size), {kTrainLabels});
  }
  for (size_t lost = 1; lost <= 9; ++lost) {
    data.check(kTrainLabels + ".gz", packed.substr(0, packed.size() - lost), {kTrainLabels});
  }
  data.check(kTrainLabels + ".gz", packed + "more", {kTrainLabels});
  for (const size_t from_end : {size_t{1}, size_t{5}}) {  // the length, the CRC
    std::string damaged = packed;
    damaged[packed.size() - from_end] = static_cast<char>(damaged[packed.size() - from_end] ^ 0x40);
    data.check(kTrainLabels + ".gz", damaged, {kTrainLabels});
  }

  const BadFolder images;
  const std::string pixels = gzip(idx_bytes({100, 28, 28}, small_set().test_pixels));
  for (size_t size = 100; size < pixels.size(); size += pixels.size() / 5) {
    CAPTURE(size);
    images.check(kTestImages + ".gz", pixels.substr(0, size), {kTestImages, "truncated"});
  }
}

TEST_CASE("bad input: plain files with wrong magic dims length or labels") {
  const std::string& pixels = small_set().train_pixels;
  const std::string& classes = small_set().train_classes;
  const std::string good = idx_bytes({300, 28, 28}, pixels);
  {
    const BadFolder data;
    data.check(kTrainImages, "", {kTrainImages});
    data.check(kTrainImages, "P5 28 28 255", {kTrainImages, "not an IDX file"});
    data.check(kTrainImages, std::string{0, 0, 0x0d, 3} + good.substr(4), {kTrainImages, "08"});
    data.check(kTrainImages, idx_bytes({300}, classes), {kTrainImages, "3 dimensions", "1"});
    data.check(kTrainImages, good.substr(0, 10), {kTrainImages, "truncated"});
    data.check(kTrainImages, good.substr(0, good.size() - 1), {kTrainImages, "truncated"});
    data.check(kTrainImages, good + "x", {kTrainImages});
    // 2^96 bytes, 2^32 bytes and what 64 bits hold barely: refused without memory for them.
    data.check(kTrainImages, idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, "x"), {kTrainImages});
    data.check(kTrainImages, idx_bytes({0xffffffff, 28, 28}, pixels), {kTrainImages});
    data.check(kTrainImages, idx_bytes({0x80000000, 0x80000000, 2}, pixels), {kTrainImages});
    data.check(kTrainImages + ".gz", gzip(idx_bytes({0x7fffffff, 0x7fffffff, 1}, pixels)),
               {kTrainImages});
    data.check(kTrainImages, idx_bytes({0, 28, 28}, ""), {kTrainImages});
    data.check(kTrainImages, idx_bytes({299, 28, 28}, pixels.substr(784)), {"300", "299"});
  }
  {
    const BadFolder data;
    std::string label = classes;
    label[217] = 10;
    data.check(kTrainLabels, idx_bytes({300}, label), {kTrainLabels, "217", "10"});
    label[217] = static_cast<char>(255);
    data.check(kTrainLabels, idx_bytes({300}, label), {kTrainLabels, "217", "255"});
    data.check(kTrainLabels, idx_bytes({301}, classes + '\0'), {"300", "301"});
  }
}

TEST_CASE("bad input: images of another size") {
  const BadFolder data;
  data.check(kTestImages, idx_bytes({100, 14, 56}, small_set().test_pixels),
             {kTestImages, "28 x 28"});
  // All of one size may have any.
  data.replace(kTrainImages, idx_bytes({300, 14, 14}, std::string(300 * 14 * 14, 'a')));
  data.replace(kTestImages, idx_bytes({100, 14, 14}, std::string(100 * 14 * 14, 'a')));
  const ToolResult result =
      run_tool({"train", "--data", data.path(), "--steps", "1", "--batch", "50"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("bad input: results that cannot be written are refused before the training") {
  const BadFolder data;
  const TempFolder out;
  const std::string missing = out.path() + "/no/such/file";
  for (const char* flag : {"--summary", "--metrics", "--save"}) {
    for (const std::string& path : {missing, out.path()}) {
      const ToolResult result =
          run_tool({"train", "--data", data.path(), "--steps", "1", "--batch", "50", flag, path});
      check_error(result, kFailed, {flag, path});
      CHECK(result.out.empty());
      CHECK(out.empty());
    }
  }
  // Where one of them is wrong the others are not begun.
  check_error(run_tool({"train", "--data", data.path(), "--steps", "1", "--batch", "50",
                        "--metrics", out.file("metrics"), "--save", missing}),
              kFailed, {"--save", missing});
  CHECK(out.empty());
}

TEST_CASE("bad input: folders without permission and devices that are full") {
  const BadFolder data;
  const TempFolder locked;
  fs::permissions(locked.path(), fs::perms::owner_read | fs::perms::owner_exec);
  // Nothing stops root but a file system without files of one's own.
  const std::string folder = geteuid() == 0 ? "/proc" : locked.path();
  const Words start = {"train", "--data", data.path(), "--steps", "1", "--batch", "50"};
  for (const char* flag : {"--summary", "--metrics", "--save"}) {
    for (const std::string& path : {folder + "/keel_result", std::string("/dev/full")}) {
      Words words = start;
      words.insert(words.end(), {flag, path});
      CAPTURE(join(words));
      check_error(run_tool(words), kFailed, {path});
    }
  }
  CHECK(locked.empty());
  fs::permissions(locked.path(), fs::perms::owner_all);
}

TEST_CASE("bad input: a failed run leaves the files of an earlier one alone") {
  const BadFolder data;
  const TempFolder out;
  const Words files = {"--summary", out.write("summary", "old"),
                       "--metrics", out.write("metrics", "old"),
                       "--save",    out.write("states", "old")};
  for (const Words& words :
       {Words{"train", "--batch", "ten"}, Words{"train", "--data", data.path(), "--batch", "301"},
        Words{"train", "--data", data.path() + "/no"}}) {
    Words all = words;
    all.insert(all.end(), files.begin(), files.end());
    CHECK(run_tool(all).exit_code != 0);
    for (const char* name : {"summary", "metrics", "states"}) {
      CHECK(read_text(out.file(name)) == "old");
    }
  }
}
