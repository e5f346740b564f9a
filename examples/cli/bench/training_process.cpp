#include "cli/bench/training_process.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <string_view>
#include <unistd.h>

#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "cli/base/environment_table.h"

namespace keel_cli {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";
constexpr uint64_t kMostSummary = uint64_t{1} << 20;

[[noreturn]] void fail(const std::string& message) {
  throw keel::Error({.op = "keel train", .message = message});
}

// A file that goes with the scope.
class ScratchFile {
 public:
  ScratchFile() : path_((std::filesystem::temp_directory_path() / "keel-bench-XXXXXX").string()) {
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) fail("cannot make " + path_ + ": " + std::strerror(errno));
    close(descriptor);
  }
  ~ScratchFile() { std::remove(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Returns what the tool told of its failure, without its own name in front.
std::string message_in(const std::string& errors) {
  constexpr std::string_view kPrefix = "keel: error: ";
  const size_t at = errors.find(kPrefix);
  std::string message = at == std::string::npos ? errors : errors.substr(at + kPrefix.size());
  while (message.ends_with('\n')) message.pop_back();
  return message;
}

int exit_status(std::vector<std::string>& words, const std::string& errors) {
  // The training of the row is measured, whatever the environment says of one.
  std::vector<std::string> variables = environment_of_another_training();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), O_WRONLY | O_TRUNC, 0);
  pid_t process = 0;
  const int failure = posix_spawn(&process, kThisProgram, &files, nullptr,
                                  pointers_to(words).data(), pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&files);
  if (failure != 0) fail(std::string("cannot be started: ") + std::strerror(failure));
  int status = 0;
  while (waitpid(process, &status, 0) != process) {
    if (errno != EINTR) fail(std::string("waitpid: ") + std::strerror(errno));
  }
  return status;
}

}  // namespace

double peak_rss_mib_of_training(const std::vector<std::string>& flags) {
  const ScratchFile summary, errors;
  std::vector<std::string> words = {"keel", "train", "--quiet", "--summary", summary.path()};
  words.insert(words.end(), flags.begin(), flags.end());
  for (const std::string& plugin : keel::backend_plugins())
    words.insert(words.end(), {"--plugin", plugin});
  const int status = exit_status(words, errors.path());
  if (status != 0) fail("failed: " + message_in(keel::read_file(errors.path(), kMostSummary)));
  const keel::Json json =
      keel::parse_json(keel::read_file(summary.path(), kMostSummary), summary.path());
  return keel::JsonView(json, "summary")["peak_rss_bytes"].number(0) / (1 << 20);
}

}  // namespace keel_cli
