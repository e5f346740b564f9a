// SharedMemory: pages that processes of one machine map together. One process makes them, others
// open them by the name it gives. They are gone with the last process that has them, however it
// ends. Owns the mapping. One thread at a time; the bytes are whatever their users agree on.
#ifndef KEEL_CORE_GROUP_SHARED_MEMORY_H
#define KEEL_CORE_GROUP_SHARED_MEMORY_H

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/group/channel.h"

namespace keel {

class SharedMemory {
 public:
  // Zeros, which take memory as they are first written, as all of a process's memory does. Throws
  // Error where the system refuses so many.
  explicit SharedMemory(size_t bytes);
  // Opens what another process made. Throws Error where nothing has that name and size.
  SharedMemory(const std::string& name, size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept
      : file_(std::move(other.file_)),
        address_(std::exchange(other.address_, nullptr)),
        bytes_(other.bytes_) {}
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  void* address() const noexcept { return address_; }
  // Stands for the pages until close_name().
  std::string name() const;
  // After this no other process can open them.
  void close_name() noexcept { file_ = Descriptor(); }

 private:
  void map();

  Descriptor file_;
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

// Set to "sockets", it keeps a job's sums from using shared memory.
inline constexpr const char* kTransportVariable = "KEEL_RANK_TRANSPORT";

// Returns what each rank gave, in the order of ranks.
using GatherTexts = std::function<std::vector<std::string>(const std::string& own)>;

// Returns why the ranks cannot share memory: they are not all on one machine and of one user, or
// one of them says no (`allowed`); empty where nothing speaks against it. Equal on all ranks.
std::string why_not_shared(bool allowed, const GatherTexts& gather);

// Makes as many bytes for each rank and maps those of all, in the order of ranks. Throws Error on
// all ranks where one of them cannot, with its reason.
std::vector<SharedMemory> share_memory(int rank, size_t bytes, const GatherTexts& gather);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_SHARED_MEMORY_H
