// What a training survives: errors of its outputs, signals, readers that go away, states that are
// no numbers. Whatever can be saved is saved, and the exit code says what happened.
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <doctest/doctest.h>
#include <keel/graph/runtime/safetensors.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/safetensors_bytes.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
namespace fs = std::filesystem;

Words one_thread_training(const Words& more) {
  Words words = {"train", "--data", small_data().path(), "--batch", "16", "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int64_t saved_step(const std::string& path) {
  const auto header = nlohmann::json::parse(safetensors_header(read_text(path)));
  return std::stoll(header.at("__metadata__").at("step").get<std::string>());
}

bool has_content(const std::string& path) { return fs::exists(path) && fs::file_size(path) > 0; }

// strace, which makes system calls fail, or "" where it is missing or may not trace.
std::string strace() {
  if (!fs::exists("/usr/bin/strace")) return "";
  return run_program("/usr/bin/strace", {"-o", "/dev/null", "/bin/true"}).exit_code == 0
             ? "/usr/bin/strace"
             : "";
}

// AddressSanitizer's search for leaks would trace a process, too.
Variables no_leaks() {
  const char* asan = std::getenv("ASAN_OPTIONS");
  return {{"ASAN_OPTIONS", (asan == nullptr ? "" : std::string(asan) + ":") + "detect_leaks=0"}};
}

}  // namespace

TEST_CASE("lasting: metrics that cannot be written lose nothing else") {
  const TempFolder files;
  const ToolResult result =
      run_tool(one_thread_training({"--steps", "30", "--metrics", "/dev/full", "--save",
                                    files.file("states"), "--summary", files.file("summary")}));
  CHECK(result.exit_code == 1);
  CHECK(lines_of(result.err).size() == 1);
  CHECK_MESSAGE(result.err.find("--metrics: /dev/full: cannot be written: No space left") !=
                    std::string::npos,
                result.err);
  CHECK(saved_step(files.file("states")) == 30);
  const auto summary = read_json(files.file("summary"));
  CHECK(summary.at("steps") == 30);
  CHECK(summary.at("errors").size() == 1);
}

TEST_CASE("lasting: a file that may grow no further keeps whole lines and the training goes on") {
  const TempFolder files;
  // 128 KiB are enough for the states of softmax and a summary with every epoch, but not for 4,000
  // lines.
  const ToolResult result = run_bash(
      R"(ulimit -f 128; exec "$0" "$@")",
      one_thread_training({"--quiet", "--steps", "4000", "--metrics", files.file("metrics"),
                           "--save", files.file("states"), "--summary", files.file("summary")}));
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find("File too large") != std::string::npos, result.err);
  CHECK(saved_step(files.file("states")) == 4000);
  CHECK(read_json(files.file("summary")).at("steps") == 4000);
  CHECK(fs::file_size(files.file("metrics")) <= 128 * 1024);
  const auto rows = read_json_lines(files.file("metrics"));  // throws for half a line
  CHECK(rows.size() > 100);
  CHECK(read_text(files.file("metrics")).back() == '\n');
}

TEST_CASE("lasting: states that cannot be saved leave a summary") {
  const TempFolder files;
  fs::create_directory(files.file("gone"));
  const std::string metrics = files.file("metrics");
  const ToolResult result = run_tool_until(
      one_thread_training({"--quiet", "--steps", "1000000000", "--metrics", metrics, "--save",
                           files.file("gone/states"), "--summary", files.file("summary")}),
      [&] { return has_content(metrics) && fs::remove_all(files.file("gone")) > 0; });
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find("gone/states: cannot write") != std::string::npos, result.err);
  const auto summary = read_json(files.file("summary"));
  CHECK(summary.at("steps") > 0);
  CHECK(summary.at("errors").size() == 1);
}

TEST_CASE("lasting: a resumed training writes into no file of another kind") {
  const TempFolder files;
  REQUIRE(
      run_tool(one_thread_training({"--steps", "5", "--save", files.file("states")})).exit_code ==
      0);
  const std::string notes = files.write("notes", "{\"step\":1,\"loss\":2}\nto be done\n");
  const ToolResult result =
      run_tool({"train", "--resume", files.file("states"), "--steps", "9", "--metrics", notes});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find("notes: line 2 is none of metrics") != std::string::npos,
                result.err);
  CHECK(read_text(notes) == "{\"step\":1,\"loss\":2}\nto be done\n");
}

TEST_CASE("lasting: a resumed training leaves a file alone whose last line lacks its end") {
  const TempFolder files;
  REQUIRE(
      run_tool(one_thread_training({"--steps", "5", "--save", files.file("states")})).exit_code ==
      0);
  const std::string lines = "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":2}\n";
  struct Case {
    std::string text, line;
  };
  const Case cases[] = {{"my only notes, no newline at the end", "1"},
                        {lines + "to be done", "3"},
                        {lines + "{\"steps\":3", "3"},
                        {"{\"loss\":2}", "1"},
                        {lines + "{\"step\":\"three\"}", "3"}};
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const std::string notes = files.write("notes", c.text);
    const ToolResult result =
        run_tool({"train", "--resume", files.file("states"), "--steps", "9", "--metrics", notes});
    CHECK(result.exit_code == 1);
    CHECK_MESSAGE(
        result.err.find("notes: line " + c.line + " is none of metrics") != std::string::npos,
        result.err);
    CHECK(read_text(notes) == c.text);
  }
  // What a power failure leaves of a line goes.
  for (const char* torn : {"{", "{\"step\":", "{\"step\":3,\"lo"}) {
    CAPTURE(torn);
    const std::string metrics = files.write("metrics", lines + torn);
    REQUIRE(
        run_tool({"train", "--resume", files.file("states"), "--steps", "6", "--metrics", metrics})
            .exit_code == 0);
    const auto rows = read_json_lines(metrics);
    REQUIRE(rows.size() == 3);
    CHECK(rows[1].at("step") == 2);
    CHECK(rows[2].at("step") == 6);
  }
}

TEST_CASE("lasting: a resumed training goes on in its metrics file behind a cut line") {
  const TempFolder files;
  const std::string metrics = files.file("metrics");
  REQUIRE(run_tool(one_thread_training(
                       {"--steps", "5", "--metrics", metrics, "--save", files.file("states")}))
              .exit_code == 0);
  std::ofstream(metrics, std::ios::app) << "{\"step\":6,\"ep";
  const Words more = {"train",     "--resume", files.file("states"), "--steps", "8",
                      "--metrics", metrics};
  REQUIRE(run_tool(more).exit_code == 0);
  const auto lines = lines_of(read_text(metrics));
  REQUIRE(lines.size() == 8);
  CHECK(nlohmann::json::parse(lines[5]).at("step") == 6);
  // A training from the beginning begins its file anew.
  REQUIRE(run_tool(one_thread_training({"--steps", "2", "--metrics", metrics})).exit_code == 0);
  CHECK(read_json_lines(metrics).size() == 2);
}

TEST_CASE("lasting: SIGTERM and SIGHUP save as Ctrl-C does") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    const TempFolder files;
    const std::string metrics = files.file("metrics");
    const ToolResult result = run_tool_until(
        one_thread_training({"--quiet", "--steps", "1000000000", "--loop-size", "1000000",
                             "--metrics", metrics, "--save", files.file("states"), "--summary",
                             files.file("summary")}),
        [&] { return has_content(metrics); }, 1, signal);
    CHECK(result.exit_code == 128 + signal);
    REQUIRE(fs::exists(files.file("states")));
    const int64_t steps = read_json(files.file("summary")).at("steps");
    CHECK(saved_step(files.file("states")) == steps);
    CHECK(read_json_lines(metrics).size() == static_cast<size_t>(steps));
  }
}

TEST_CASE("lasting: a signalled training leaves the test set out and says so") {
  const TempFolder files;
  const std::string metrics = files.file("metrics");
  // An epoch of the oracle on the built-in digits takes far longer than the signal needs.
  const ToolResult result = run_tool_until(
      {"train", "--backend", "ref", "--metrics", metrics, "--summary", files.file("summary")},
      [&] { return has_content(metrics); });
  CHECK(result.exit_code == 128 + SIGINT);
  CHECK_MESSAGE(result.out.find("test accuracy not measured") != std::string::npos, result.out);
  CHECK(read_json(files.file("summary")).at("test_accuracy").is_null());
}

TEST_CASE("lasting: a second signal of any kind ends it at once") {
  const TempFolder files;
  const std::string metrics = files.file("metrics");
  // A step of the oracle on such a model takes longer than the second signal needs.
  const ToolResult result = run_tool_until(
      {"train", "--quiet", "--data", small_data().path(), "--model", "lenet", "--backend", "ref",
       "--batch", "20", "--threads", "1", "--steps", "1000000000", "--metrics", metrics, "--save",
       files.file("states")},
      [&] { return has_content(metrics); }, 1000, SIGTERM);
  CHECK(result.exit_code == 143);
  CHECK(!fs::exists(files.file("states")));
}

TEST_CASE("lasting: a hangup that was ignored from the start stays ignored") {
  const TempFolder files;
  const std::string metrics = files.file("metrics");
  // The hangup comes while it trains, and SIGTERM when it has trained for a while since.
  constexpr const char* kScript = R"(
    trap '' HUP
    "$0" "$@" & tool=$!
    lines() { cat "$METRICS" 2> /dev/null | wc -l; }
    runs_to() {
      while kill -0 $tool && [ $(lines) -lt $1 ]; do sleep 0.01; done
    } 2> /dev/null
    runs_to 1; kill -HUP $tool
    runs_to $(($(lines) + 1000)); kill -TERM $tool
    wait $tool)";
  const ToolResult result =
      run_bash(kScript,
               one_thread_training({"--quiet", "--steps", "1000000000", "--metrics", metrics,
                                    "--save", files.file("states")}),
               {{"METRICS", metrics}});
  CHECK_MESSAGE(result.exit_code == 128 + SIGTERM, result.err);
  CHECK(saved_step(files.file("states")) > 1000);
}

TEST_CASE("lasting: a closed standard output ends a training that saves nothing") {
  const TempFolder files;
  const ToolResult result =
      run_bash(R"("$0" "$@" | true; exit ${PIPESTATUS[0]})",
               one_thread_training({"--steps", "1000000000", "--summary", files.file("summary")}));
  CHECK_MESSAGE(result.exit_code == 128 + SIGPIPE, result.err);
  CHECK(fs::exists(files.file("summary")));
}

TEST_CASE("lasting: a closed standard output does not end a training that is saved") {
  const TempFolder files;
  for (const char* reader : {"true", "head -1"}) {
    CAPTURE(reader);
    const ToolResult result =
        run_bash(R"("$0" "$@" | )" + std::string(reader) + R"( > /dev/null; exit ${PIPESTATUS[0]})",
                 one_thread_training({"--epochs", "20", "--save", files.file(reader)}));
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    CHECK(saved_step(files.file(reader)) == 240);
  }
}

TEST_CASE("lasting: a metrics pipe whose reader goes away stops the training and saves it") {
  const TempFolder files;
  const std::string pipe = files.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  std::string text;
  const ToolResult result =
      run_tool_until(one_thread_training({"--quiet", "--steps", "1000000000", "--metrics", pipe,
                                          "--save", files.file("states")}),
                     [&] {
                       char bytes[4096];
                       const ssize_t got = reader < 0 ? 0 : read(reader, bytes, sizeof bytes);
                       if (got > 0) {
                         text.append(bytes, static_cast<size_t>(got));
                         close(reader);
                         reader = -1;
                       }
                       return false;
                     });
  CHECK_MESSAGE(result.exit_code == 128 + SIGPIPE, result.err);
  CHECK(nlohmann::json::parse(lines_of(text)[0]).at("step") == 1);
  CHECK(saved_step(files.file("states")) > 0);
}

TEST_CASE("lasting: a metrics pipe that nobody reads is refused") {
  const TempFolder files;
  const std::string pipe = files.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const ToolResult result = run_tool(
      one_thread_training({"--steps", "2", "--metrics", pipe, "--save", files.file("states")}));
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find(pipe + ": is a pipe that nobody reads") != std::string::npos,
                result.err);
  CHECK(!fs::exists(files.file("states")));
}

TEST_CASE("lasting: a metrics pipe whose reader sleeps does not hold up Ctrl-C") {
  const TempFolder files;
  const std::string pipe = files.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  REQUIRE(fcntl(reader, F_SETPIPE_SZ, 4096) == 4096);
  // The pipe holds some 90 lines; then it stays as it is while steps go on.
  int full_for = 0;
  const ToolResult result =
      run_tool_until(one_thread_training({"--quiet", "--steps", "1000000000", "--metrics", pipe,
                                          "--save", files.file("states")}),
                     [&] {
                       int waiting = 0;
                       if (ioctl(reader, FIONREAD, &waiting) == 0 && waiting >= 3500) ++full_for;
                       return full_for == 2000;
                     });
  close(reader);
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find("stopped reading") != std::string::npos, result.err);
  CHECK(saved_step(files.file("states")) > 0);
}

TEST_CASE("lasting: metrics appear while the training runs and only in whole lines") {
  const TempFolder files;
  const std::string metrics = files.file("metrics");
  bool whole = true;
  size_t sizes_seen = 0;
  size_t last_size = 0;
  // Few lines a second: buffers of the usual size would fill after the test is over.
  const ToolResult result = run_tool_until(
      {"train", "--quiet", "--data", small_data().path(), "--backend", "ref", "--model", "mlp",
       "--batch", "8", "--steps", "1000000000", "--loop-size", "1000000", "--metrics", metrics},
      [&] {
        if (!has_content(metrics)) return false;
        const std::string text = read_text(metrics);
        whole = whole && text.back() == '\n';
        if (text.size() != last_size) ++sizes_seen;
        last_size = text.size();
        return sizes_seen == 3;
      });
  CHECK(result.exit_code == 130);
  CHECK(whole);
  CHECK(last_size < 4096);
}

TEST_CASE("lasting: states that are no numbers do not replace a file of finite ones") {
  const TempFolder files;
  const std::string states = files.file("states");
  REQUIRE(run_tool(one_thread_training({"--model", "mlp", "--steps", "2", "--save", states}))
              .exit_code == 0);
  const std::string good = read_text(states);
  const Words bad = one_thread_training({"--model", "mlp", "--lr", "1e6", "--steps", "6", "--save",
                                         states, "--summary", files.file("summary")});
  ToolResult result = run_tool(bad);
  CHECK(result.exit_code == 1);
  CHECK(result.err.find(": fetched numbers were infinite or NaN") != std::string::npos);
  CHECK_MESSAGE(result.err.find(states + ": is left as it was") != std::string::npos, result.err);
  CHECK((read_text(states) == good));
  CHECK(read_json(files.file("summary")).at("non_finite_state").is_string());

  Words forced = bad;
  forced.push_back("--allow-non-finite");
  CHECK(run_tool(forced).exit_code == 0);
  CHECK((read_text(states) != good));
  // Nothing finite is lost any more.
  CHECK(run_tool(bad).exit_code == 0);
  // Nor is there anything to lose in a file of another kind.
  files.write("states", "no states");
  CHECK(run_tool(bad).exit_code == 0);
}

TEST_CASE("lasting: a file of states that cannot be read is not replaced by what is no number") {
  const TempFolder files;
  const std::string states = files.file("states");
  const Words diverging =
      one_thread_training({"--quiet", "--model", "mlp", "--lr", "1e6", "--steps", "6"});
  const auto left_alone = [&](const Words& more, const Words& parts) {
    const std::string before = read_text(states);
    const ToolResult result = run_tool(with(diverging, more), {{"KEEL_READ_BUDGET_MIB", "1"}});
    CHECK(result.exit_code == 1);
    for (const std::string& part : parts)
      CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err);
    CHECK((read_text(states) == before));
  };
  const auto names = [&](const std::string& flag) {
    return flag + ": " + states + ": is left as it was";
  };
  const Words judged = {"--eval-every", "6", "--save-best", states};
  keel::write_safetensors(states, {{"w", keel::Tensor::of<float>({2}, {1, 2})}},
                          {{"notes", std::string(size_t{2} << 20, 'n')}});
  const Words over_budget = {"cannot be told", "more than 1 MiB", "--allow-non-finite"};
  left_alone({"--save", states}, with({names("--save")}, over_budget));
  left_alone(judged, with({names("--save-best")}, over_budget));
  // A file that is cut short may have states that can be saved yet.
  REQUIRE(run_tool(one_thread_training({"--steps", "2", "--save", states})).exit_code == 0);
  left_alone(judged, {names("--save-best") + ": its states are finite"});
  fs::resize_file(states, fs::file_size(states) - 1);
  left_alone({"--save", states}, {names("--save"), "cannot be told", "is cut short"});
  CHECK(run_tool(with(diverging, {"--save", states, "--allow-non-finite"})).exit_code == 0);
}

TEST_CASE("lasting: metrics that cannot be read are told of as that") {
  const std::string tracer = strace();
  if (tracer.empty()) {
    MESSAGE("keel test skipped: no strace that may trace");
    return;
  }
  const TempFolder files;
  const std::string states = files.file("states"), metrics = files.file("metrics");
  const Words training =
      one_thread_training({"--quiet", "--steps", "2", "--metrics", metrics, "--save", states});
  REQUIRE(run_tool(training).exit_code == 0);
  const std::string before = read_text(metrics);
  const ToolResult result = run_program(
      tracer,
      {"-f", "-qq", "-o", "/dev/null", "-e", "inject=read:error=EIO", "-P", metrics, KEEL_TOOL,
       "train", "--quiet", "--resume", states, "--steps", "4", "--metrics", metrics},
      no_leaks());
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(result.err.find("--metrics: " + metrics + ": cannot be read: Input/output error") !=
                    std::string::npos,
                result.err);
  CHECK(read_text(metrics) == before);
}

TEST_CASE(
    "lasting: a folder that cannot be synced is told of and an interrupted sync is repeated") {
  const std::string tracer = strace();
  if (tracer.empty()) {
    MESSAGE("keel test skipped: no strace that may trace");
    return;
  }
  const TempFolder files;
  const auto traced = [&](const std::string& fault) {
    Words words = {"-f",     "-qq",         "-o", files.file("trace"),
                   "-e",     "trace=fsync", "-e", "inject=fsync:" + fault,
                   KEEL_TOOL};
    for (const std::string& word :
         one_thread_training({"--quiet", "--steps", "2", "--save", files.file("states")}))
      words.push_back(word);
    return run_program(tracer, words, no_leaks());
  };
  // The file's own sync comes first, then its folder's.
  ToolResult result = traced("error=EIO:when=2");
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(
      result.err.find("its folder cannot be synced: Input/output error") != std::string::npos,
      result.err);
  CHECK(saved_step(files.file("states")) == 2);
  for (const char* when : {"1", "2"}) {
    result = traced("error=EINTR:when=" + std::string(when));
    CHECK_MESSAGE(result.exit_code == 0, result.err);
  }
  result = traced("error=EINVAL:when=2");  // a file system that cannot
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("lasting: a save that was killed leaves nothing behind the next one") {
  const std::string tracer = strace();
  if (tracer.empty()) {
    MESSAGE("keel test skipped: no strace that may trace");
    return;
  }
  const TempFolder files;
  Words words = {"-f",     "-qq",         "-o", "/dev/null",
                 "-e",     "trace=fsync", "-e", "inject=fsync:signal=SIGKILL:when=1",
                 KEEL_TOOL};
  const Words save =
      one_thread_training({"--quiet", "--steps", "2", "--save", files.file("states")});
  words.insert(words.end(), save.begin(), save.end());
  CHECK(run_program(tracer, words).exit_code == 128 + SIGKILL);
  const auto count = [&] {
    return std::distance(fs::directory_iterator(files.path()), fs::directory_iterator());
  };
  CHECK(count() == 1);
  CHECK(!fs::exists(files.file("states")));
  CHECK(run_tool(save).exit_code == 0);
  CHECK(count() == 1);
  CHECK(fs::exists(files.file("states")));
}

TEST_CASE("lasting: each system call of a file that fails is told of and loses nothing") {
  const std::string tracer = strace();
  if (tracer.empty()) {
    MESSAGE("keel test skipped: no strace that may trace");
    return;
  }
  const TempFolder files;
  const std::string states = files.file("states");
  // A save of other states than there are, so that a file that was replaced shows it.
  const Words save =
      one_thread_training({"--quiet", "--steps", "2", "--seed", "2", "--save", states});
  const Words inspect = {"inspect", states};
  CHECK(run_tool(save).exit_code == 0);
  const std::string replaced = read_text(states);
  CHECK(run_tool(one_thread_training({"--quiet", "--steps", "2", "--save", states})).exit_code ==
        0);
  const std::string good = read_text(states);
  REQUIRE((good != replaced));
  struct Case {
    Words command;
    const char* fault;
    std::string path;  // of the calls that may fail; "": of all
    int exit_code;
    const char* message;
    bool replaces = false;
  };
  // The fourth call that asks for a file's size asks for that of the open file.
  const Case cases[] = {
      {inspect, "openat:error=EMFILE", states, 1, "cannot open: Too many open files"},
      {inspect, "fstat,newfstatat:error=EIO:when=4", states, 1, "cannot read: Input/output error"},
      {inspect, "pread64:error=EIO", states, 1, "cannot read: Input/output error"},
      {inspect, "pread64:error=EINTR:when=1", states, 0, ""},
      {inspect, "pread64:retval=0:when=1", states, 1, "a file that shrank"},
      {save, "fchmod:error=EPERM", "", 1, "cannot keep the permissions"},
      {save, "fsync:error=EIO:when=1", "", 1, "cannot write: Input/output error"},
      {save, "rename:error=EROFS", "", 1, "cannot replace the file: Read-only file system"},
      {save, "openat:error=EACCES", files.path(), 0, "", true},  // a folder that cannot be read
      {save, "openat:error=EMFILE", files.path(), 1, "its folder cannot be synced", true},
  };
  for (const Case& each : cases) {
    CAPTURE(each.fault);
    Words words = {"-f", "-qq", "-o", "/dev/null", "-e", std::string("inject=") + each.fault};
    if (!each.path.empty()) words.insert(words.end(), {"-P", each.path});
    words.push_back(KEEL_TOOL);
    words.insert(words.end(), each.command.begin(), each.command.end());
    const ToolResult result = run_program(tracer, words, no_leaks());
    CHECK_MESSAGE(result.exit_code == each.exit_code, result.err);
    CHECK_MESSAGE(result.err.find(each.message) != std::string::npos, result.err);
    CHECK((read_text(states) == (each.replaces ? replaced : good)));
    files.write("states", good);
  }
}

TEST_CASE("lasting: a first checkpoint of NaN is told of without older files that are none") {
  const TempFolder files;
  const ToolResult result =
      run_tool(one_thread_training({"--quiet", "--model", "mlp", "--lr", "1e6", "--steps", "6",
                                    "--checkpoint", files.file("runs")}));
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(
      result.err.find("is NaN or infinite, and the folder has no older file") != std::string::npos,
      result.err);
}

TEST_SUITE_END();
