#include "keel/core/group/shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sstream>
#include <system_error>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "keel/core/base/error.h"
#include "keel/core/group/machine.h"

namespace keel {
namespace {

[[noreturn]] void fail(const std::string& what, int number) {
  throw Error({.message = what + ": " + std::generic_category().message(number)});
}

struct stat status_of(int file) {
  struct stat status = {};
  if (fstat(file, &status) != 0) fail("memory that ranks share", errno);
  return status;
}

std::string link_target(const char* path) {
  char target[128];
  const ssize_t length = readlink(path, target, sizeof target);
  return length < 0 ? "unknown" : std::string(target, static_cast<size_t>(length));
}

// Processes with the same text see each other's files in /proc. Empty where the system does not
// say.
std::string place_of_this_process() {
  const std::string machine = machine_name();
  if (machine.empty()) return "";
  return machine + " " + link_target("/proc/self/ns/pid") + " " + std::to_string(geteuid());
}

// Growing a file beyond this limit ends the process.
bool limits_files() {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

SharedMemory::SharedMemory(size_t bytes)
    : file_(check_call(memfd_create("keel ranks", MFD_CLOEXEC), "memory that ranks share")),
      bytes_(bytes) {
  if (ftruncate(file_.number(), static_cast<off_t>(bytes)) != 0)
    fail(std::to_string(bytes) + " bytes that ranks share", errno);
  map();
}

// The numbers of its device and file tell it from whatever else has that number in a process.
SharedMemory::SharedMemory(const std::string& name, size_t bytes) : bytes_(bytes) {
  std::istringstream words(name);
  int process = 0, number = 0;
  dev_t device = 0;
  ino_t file = 0;
  if (!(words >> process >> number >> device >> file))
    throw Error({.message = "'" + name + "' does not name shared memory"});
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  file_ = Descriptor(
      check_call(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK), "another rank's memory"));
  const struct stat status = status_of(file_.number());
  if (status.st_dev != device || status.st_ino != file ||
      status.st_size != static_cast<off_t>(bytes))
    throw Error({.message = "another rank's memory is not what it said"});
  map();
}

SharedMemory::~SharedMemory() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

std::string SharedMemory::name() const {
  const struct stat status = status_of(file_.number());
  return std::to_string(getpid()) + " " + std::to_string(file_.number()) + " " +
         std::to_string(status.st_dev) + " " + std::to_string(status.st_ino);
}

void SharedMemory::map() {
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (mapped == MAP_FAILED) fail(std::to_string(bytes_) + " bytes that ranks share", errno);
  address_ = mapped;
}

std::string why_not_shared(bool allowed, const GatherTexts& gather) {
  const std::string place = place_of_this_process();
  const std::string reason = !allowed         ? std::string(kTransportVariable) + "=sockets"
                             : limits_files() ? "the size of files is limited (ulimit -f)"
                             : place.empty()  ? "/proc/sys/kernel/random/boot_id cannot be read"
                                              : "";
  const std::vector<std::string> places = gather(place);
  const std::vector<std::string> reasons = gather(reason);
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (!reasons[rank].empty()) return "rank " + std::to_string(rank) + ": " + reasons[rank];
  }
  for (size_t rank = 1; rank < places.size(); ++rank) {
    if (places[rank] != places[0])
      return "rank " + std::to_string(rank) +
             " is on another machine, in another container or another user's than rank 0";
  }
  return "";
}

std::vector<SharedMemory> share_memory(int rank, size_t bytes, const GatherTexts& gather) {
  // Each rank says how it went, so that none waits for one that has failed.
  std::string failure;
  const auto attempt = [&](const auto& work) {
    try {
      if (failure.empty()) work();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  };
  std::vector<SharedMemory> own;
  std::string name;
  attempt([&] {
    own.emplace_back(bytes);
    name = own.front().name();
  });
  const std::vector<std::string> names = gather(name);
  const bool all_made = std::find(names.begin(), names.end(), "") == names.end();
  std::vector<SharedMemory> all;
  all.reserve(names.size());
  attempt([&] {
    for (size_t other = 0; all_made && other < names.size(); ++other) {
      if (static_cast<int>(other) == rank)
        all.push_back(std::move(own.front()));
      else
        all.emplace_back(names[other], bytes);
    }
  });
  const std::vector<std::string> failures = gather(failure);
  for (size_t other = 0; other < failures.size(); ++other) {
    if (!failures[other].empty())
      throw Error(
          {.op = "ranks",
           .message = "rank " + std::to_string(other) + " cannot share memory: " + failures[other],
           .fix = std::string("set ") + kTransportVariable + "=sockets on all ranks"});
  }
  for (SharedMemory& memory : all) memory.close_name();
  return all;
}

}  // namespace keel
