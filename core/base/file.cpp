#include "keel/core/base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <system_error>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "keel/core/base/error.h"
#include "keel/core/base/file_size_signal.h"
#include "keel/core/base/temporary_file.h"

namespace keel {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

[[noreturn]] void throw_file_error(const std::string& path, const std::string& action, int code) {
  throw Error({.op = path, .message = action + ": " + reason(code)});
}

[[noreturn]] void throw_not_regular(const std::string& path, mode_t mode) {
  const char* got = S_ISDIR(mode)    ? "a folder"
                    : S_ISFIFO(mode) ? "a pipe"
                    : S_ISSOCK(mode) ? "a socket"
                                     : "a device";
  throw Error({.op = path, .expected = "a regular file", .got = got});
}

// Repeats a system call that a signal has interrupted.
template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

int retry_open(const std::string& path, int flags) {
  return retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC); });
}

// Reads until `count` bytes or the end; returns how many came.
size_t read_up_to(int descriptor, const std::string& path, uint64_t offset, char* bytes,
                  size_t count) {
  size_t done = 0;
  while (done < count) {
    const ssize_t got = retry([&] {
      return ::pread(descriptor, bytes + done, count - done, static_cast<off_t>(offset + done));
    });
    if (got < 0) throw_file_error(path, "cannot read", errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Has what lies in the folder reach the disk. Returns 0, or the system's reason why it does not.
int sync_folder(const std::string& path) {
  const int folder = retry_open(path, O_RDONLY | O_DIRECTORY);
  // Nothing can be done where a folder may be written but not read.
  if (folder < 0) return errno == EACCES ? 0 : errno;
  const int code = retry([&] { return ::fsync(folder); }) == 0 ? 0 : errno;
  ::close(folder);
  // File systems that cannot sync a folder say EINVAL.
  return code == EINVAL ? 0 : code;
}

// Returns the file that a write to `path` changes: the end of its symbolic links. Those of pipes in
// /proc, as /dev/stdout may be, end at no path.
std::string resolve(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw_not_regular(path, status.st_mode);
  if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (real == nullptr) throw_file_error(path, "cannot follow the symbolic link", errno);
  return real.get();
}

}  // namespace

std::string read_file(const std::string& path, uint64_t max_bytes) {
  const InputFile file(path);
  if (file.size() > max_bytes) {
    throw Error({.op = path,
                 .expected = "at most " + std::to_string(max_bytes) + " bytes",
                 .got = std::to_string(file.size())});
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, bytes.data(), bytes.size());
  return bytes;
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(resolve(path)) {
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  // The temporary file has a short name.
  if (!exists && errno == ENAMETOOLONG) throw_file_error(path_, "cannot write", errno);
  if (exists && !S_ISREG(status.st_mode)) throw_not_regular(path_, status.st_mode);
  TemporaryFile file = make_temporary_file(target_, folder_of(target_));
  if (file.descriptor < 0) throw_file_error(path_, "cannot write", errno);
  descriptor_ = file.descriptor;
  temporary_ = std::move(file.path);
  if (exists && retry([&] { return ::fchmod(descriptor_, status.st_mode & 07777); }) != 0)
    fail("cannot keep the permissions");
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::fail(const std::string& action) {
  const int code = errno;
  discard();
  throw_file_error(path_, action, code);
}

void AtomicFile::write(const void* bytes, size_t count) {
  const FileSizeSignalBlock block;
  const auto* at = static_cast<const char*>(bytes);
  while (count != 0) {
    const ssize_t done = retry([&] { return ::write(descriptor_, at, count); });
    if (done < 0) fail("cannot write");
    at += done;
    count -= static_cast<size_t>(done);
  }
}

void AtomicFile::commit(const std::function<void()>& before_it_appears) {
  if (retry([&] { return ::fsync(descriptor_); }) != 0) fail("cannot write");
  if (before_it_appears) before_it_appears();
  // The lock goes with the descriptor, and whoever finds the temporary file without it removes it.
  if (retry([&] { return ::rename(temporary_.c_str(), target_.c_str()); }) != 0)
    fail("cannot replace the file");
  temporary_.clear();
  // Its bytes are on the disk, so that closing it cannot fail in a way that matters.
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename itself must reach the disk, too.
  if (const int code = sync_folder(folder_of(target_)); code != 0) {
    throw_file_error(
        path_, "was written, but may not outlive a power failure: its folder cannot be synced",
        code);
  }
}

void make_folder(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return;
    throw Error({.op = path, .expected = "a folder", .got = "a file"});
  }
  size_t end = path.size();
  while (end > 1 && path[end - 1] == '/') --end;
  const std::string name = path.substr(0, end);
  const std::string parent = folder_of(name);
  if (name.empty()) throw_file_error("''", "is no folder", ENOENT);
  if (parent != name) make_folder(parent);
  if (::mkdir(name.c_str(), 0777) != 0 && errno != EEXIST)
    throw_file_error(path, "cannot be made", errno);
  if (const int code = sync_folder(parent); code != 0)
    throw_file_error(path, "was made, but may not outlive a power failure", code);
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw_file_error(path, "cannot be removed", errno);
}

FolderLock::FolderLock(const std::string& path) {
  descriptor_ = retry_open(path, O_RDONLY | O_DIRECTORY);
  if (descriptor_ < 0) throw_file_error(path, "cannot open", errno);
  if (retry([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0) return;
  if (errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw Error({.op = path,
               .message = "another training writes to it",
               .fix = "give each training a folder of its own"});
}

FolderLock::~FolderLock() { ::close(descriptor_); }

InputFile::InputFile(const std::string& path) : path_(path) {
  // Without O_NONBLOCK opening a pipe would wait for its writer.
  descriptor_ = retry_open(path, O_RDONLY | O_NONBLOCK);
  if (descriptor_ < 0) throw_file_error(path, "cannot open", errno);
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  const int code = errno;
  if (known && S_ISREG(status.st_mode)) {
    size_ = static_cast<uint64_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  if (!known) throw_file_error(path, "cannot read", code);
  throw_not_regular(path, status.st_mode);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read_at(uint64_t offset, void* bytes, size_t count) const {
  const bool inside = offset <= size_ && count <= size_ - offset;
  const size_t got =
      inside ? read_up_to(descriptor_, path_, offset, static_cast<char*>(bytes), count) : 0;
  if (!inside || got != count) {
    throw Error({.op = path_,
                 .expected = std::to_string(count) + " bytes at offset " + std::to_string(offset),
                 .got = inside ? "a file that shrank while it was read"
                               : "a file of " + std::to_string(size_)});
  }
}

}  // namespace keel
