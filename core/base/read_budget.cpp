#include "keel/core/base/read_budget.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "keel/core/base/environment.h"

namespace keel {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kDefault = 256 * kMiB;
constexpr int64_t kMostMiB = int64_t{1} << 40;

constexpr uint64_t kTimesTheFile = 16;

// 0: nobody has chosen one.
std::atomic<uint64_t> chosen{0};

}  // namespace

uint64_t read_budget() {
  const uint64_t bytes = chosen.load(std::memory_order_relaxed);
  if (bytes != 0) return bytes;
  const auto mib = environment_integer("KEEL_READ_BUDGET_MIB", 1, kMostMiB);
  return mib ? static_cast<uint64_t>(*mib) * kMiB : kDefault;
}

void set_read_budget(uint64_t bytes) { chosen.store(bytes, std::memory_order_relaxed); }

int64_t read_limit(uint64_t file_bytes, int64_t wanted) {
  if (wanted < 0) {
    throw Error({.op = "read",
                 .argument = "max_bytes",
                 .expected = "0 or more",
                 .got = std::to_string(wanted),
                 .fix = "give the most bytes that the data may take, or 0 for the read budget",
                 .kind = ErrorKind::kInvalidArgument});
  }
  if (wanted != 0) return wanted;
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const uint64_t by_size = file_bytes > kMost / kTimesTheFile ? kMost : file_bytes * kTimesTheFile;
  return static_cast<int64_t>(std::max(std::min(read_budget(), kMost), by_size));
}

std::string raise_read_limit() {
  return "where the file can be trusted, raise the limit (max_bytes of the reader, "
         "KEEL_READ_BUDGET_MIB, or --read-budget of keel's commands)";
}

Error over_read_budget(const std::string& path, const std::string& what, uint64_t budget) {
  return Error({.op = path,
                .argument = what,
                .message = "reading it would take more than " + std::to_string(budget / kMiB) +
                           " MiB of memory beyond its data",
                .fix = "where the file can be trusted, raise the limit (KEEL_READ_BUDGET_MIB, or "
                       "--read-budget of keel's commands)"});
}

}  // namespace keel
