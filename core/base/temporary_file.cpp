#include "keel/core/base/temporary_file.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <sys/file.h>
#include <sys/stat.h>

namespace keel {
namespace {

constexpr std::string_view kSuffix = ".keel-tmp";

// Takes ".<digits>" from the end of `name`.
std::optional<int64_t> take_number(std::string_view& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(dot + 1);
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc() || end != digits.data() + digits.size() || digits[0] == '-')
    return std::nullopt;
  name = name.substr(0, dot);
  return number;
}

// Returns the process that a temporary file's name holds; nothing for names of other files.
std::optional<pid_t> process_of(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  const auto number = take_number(name);
  const auto process = take_number(name);
  if (!number || !process || name.size() < 2 || *process < 1 || *process > INT32_MAX)
    return std::nullopt;
  return static_cast<pid_t>(*process);
}

// A process of this number may be another one of today: in a container each run has the same. So
// this process's own number tells nothing, and the lock decides.
bool may_be_dead(pid_t process) {
  return process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
}

// Says whether the name is that of the open file, and not of another or of none.
bool is_name_of(int file, int folder, const char* name) {
  struct stat open {};
  struct stat named {};
  return ::fstat(file, &open) == 0 && ::fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// Says whether somebody has removed the name of the open file.
bool is_removed(int file) {
  struct stat open {};
  return ::fstat(file, &open) == 0 && open.st_nlink == 0;
}

void remove_if_unlocked(int folder, const char* name) {
  const int file = ::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  // Whoever held the lock until now may have removed the file, and the name be another one's.
  if (::flock(file, LOCK_EX | LOCK_NB) == 0 && is_name_of(file, folder, name))
    ::unlinkat(folder, name, 0);
  ::close(file);
}

// Removes the temporary files that processes which are gone left in this folder. It is done as far
// as it can be: a file that cannot be opened, locked or removed stays.
void remove_abandoned_files(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries.get())) {
    const auto process = process_of(entry->d_name);
    if (process && may_be_dead(*process)) remove_if_unlocked(::dirfd(entries.get()), entry->d_name);
  }
}

std::string path_for(const std::string& target) {
  static std::atomic<uint64_t> counter{0};
  const size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : target.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? target : target.substr(slash + 1);
  constexpr size_t kLongestName = 200;  // file systems allow 255
  return folder + "." + name.substr(0, kLongestName) + "." + std::to_string(::getpid()) + "." +
         std::to_string(counter.fetch_add(1)) + std::string(kSuffix);
}

// A process that cannot see this one, as in another container, takes a file for abandoned until it
// is locked: it may hold the lock just now, or have removed the file. False then. Where a file
// system has no locks, the process in the name has to do.
bool keep_from_removal(const TemporaryFile& file) {
  const bool others = ::flock(file.descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return !others && !is_removed(file.descriptor);
}

}  // namespace

TemporaryFile make_temporary_file(const std::string& target, const std::string& folder) {
  // Another thread must not take a file for abandoned before it is locked.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  remove_abandoned_files(folder);
  constexpr int kMostTries = 100;
  TemporaryFile file;
  for (int tries = 0; tries < kMostTries; ++tries) {
    file.path = path_for(target);
    file.descriptor = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.descriptor >= 0) {
      if (keep_from_removal(file)) return file;
      ::close(std::exchange(file.descriptor, -1));
      errno = EBUSY;
      // The name may be that of a file of a process of the same number, in another container.
    } else if (errno != EINTR && errno != EEXIST) {
      break;
    }
  }
  return file;
}

}  // namespace keel
