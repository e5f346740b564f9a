// Files as the library reads and writes them: whole reads with a limit, reads at an offset, and
// writes that either complete or leave the old file untouched. Errors name the path and the
// system's reason. An object is used by one thread at a time.
#ifndef KEEL_CORE_BASE_FILE_H
#define KEEL_CORE_BASE_FILE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "keel/core/base/export.h"

namespace keel {

// Returns the bytes of a regular file; throws Error where it cannot be read or has more than
// max_bytes.
KEEL_API std::string read_file(const std::string& path, uint64_t max_bytes);

// Writes a temporary file in the same folder, syncs it and renames it over `path`, so that readers
// see the old or the new bytes, never a part. Follows a symbolic link; refuses anything but a
// regular file. Throws Error; then `path` is as it was and no temporary file is left. One
// exception: where the folder cannot be synced, the Error says that the new file is in place, but
// that it may not outlive a power failure. Removes temporary files that killed processes left in
// the folder.
KEEL_API void write_file_atomically(const std::string& path, std::string_view bytes);

// Makes the folder, and those that it lies in where they are missing, so that they outlive a power
// failure. Throws Error where one cannot be made or is no folder.
KEEL_API void make_folder(const std::string& path);

// Removes a file; one that is not there is no error. Throws Error where it stays.
KEEL_API void remove_file(const std::string& path);

// write_file_atomically in pieces: the file appears at commit(); without it nothing does.
// `before_it_appears` is called once all bytes are on the disk, so that what the file takes the
// place of may go; what it throws leaves the file unwritten.
class KEEL_API AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  void commit(const std::function<void()>& before_it_appears = {});

 private:
  [[noreturn]] void fail(const std::string& action);
  void discard() noexcept;

  std::string path_;       // as the caller gave it, for messages
  std::string target_;     // with links resolved
  std::string temporary_;  // empty once committed or discarded
  int descriptor_ = -1;
};

// A regular file open for reading.
class KEEL_API InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  // Returns the file's length in bytes, as it was when the file was opened.
  uint64_t size() const noexcept { return size_; }
  // Exactly `count` bytes from `offset` on; throws where the file is shorter.
  void read_at(uint64_t offset, void* bytes, size_t count) const;

 private:
  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
};

// A folder that this object alone may write to, of all that lock it: of this process or another.
// The system lets go of it when the process ends, however it does. A file system without locks
// grants it to all.
class KEEL_API FolderLock {
 public:
  // Throws Error where another one holds it, and where the folder cannot be opened.
  explicit FolderLock(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace keel

#endif  // KEEL_CORE_BASE_FILE_H
