#include "cli/bench/training_process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <string_view>
#include <unistd.h>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cli/base/environment_table.h"

namespace keel_cli {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";
constexpr int kExitNotStarted = 127;
constexpr uint64_t kMostSummary = uint64_t{1} << 20;

[[noreturn]] void fail(const std::string& message) {
  throw keel::Error({.op = "keel train", .message = message});
}

// A file for another process to make, of a name that nobody can guess. It is not there before that,
// so that a signal that ends this process leaves none behind, and goes with the scope.
class FileToCome {
 public:
  FileToCome() {
    std::random_device random;
    const auto folder = std::filesystem::temp_directory_path();
    path_ = (folder / fmt::format("keel-bench-{}-{:08x}{:08x}", getpid(), random(), random()));
  }
  ~FileToCome() { std::remove(path_.c_str()); }
  FileToCome(const FileToCome&) = delete;
  FileToCome& operator=(const FileToCome&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A file without a name, which the system removes with the last process that has it open.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("keel-bench", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail(std::string("memfd_create: ") + std::strerror(errno));
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int descriptor() const { return descriptor_; }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
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

// In the new process, where other threads may have held any lock: system calls alone. Does not
// return.
[[noreturn]] void become_training(char* const* words, char* const* variables, int errors,
                                  pid_t parent) {
  // Whatever ends the measurement ends the training that it waits for.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitNotStarted);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execve(kThisProgram, words, variables);
  constexpr std::string_view kText = "keel: error: cannot be started\n";
  static_cast<void>(!write(STDERR_FILENO, kText.data(), kText.size()));
  _exit(kExitNotStarted);
}

int exit_status(std::vector<std::string>& words, const MemoryFile& errors) {
  // The training of the row is measured, whatever the environment says of one.
  std::vector<std::string> variables = environment_of_another_training();
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> variable_pointers = pointers_to(variables);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) fail(std::string("cannot be started: ") + std::strerror(errno));
  if (process == 0) {
    become_training(word_pointers.data(), variable_pointers.data(), errors.descriptor(), parent);
  }
  int status = 0;
  while (waitpid(process, &status, 0) != process) {
    if (errno != EINTR) fail(std::string("waitpid: ") + std::strerror(errno));
  }
  return status;
}

}  // namespace

double peak_rss_mib_of_training(const std::vector<std::string>& flags) {
  const FileToCome summary;
  const MemoryFile errors;
  std::vector<std::string> words = {"keel", "train", "--quiet", "--summary", summary.path()};
  words.insert(words.end(), flags.begin(), flags.end());
  for (const std::string& plugin : keel::backend_plugins())
    words.insert(words.end(), {"--plugin", plugin});
  const int status = exit_status(words, errors);
  if (status != 0) fail("failed: " + message_in(keel::read_file(errors.path(), kMostSummary)));
  const keel::Json json =
      keel::parse_json(keel::read_file(summary.path(), kMostSummary), summary.path());
  return keel::JsonView(json, "summary")["peak_rss_bytes"].number(0) / (1 << 20);
}

}  // namespace keel_cli
