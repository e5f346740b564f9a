#include "keel/core/base/read_budget.h"

#include <atomic>

#include "keel/core/base/environment.h"

namespace keel {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kDefault = 256 * kMiB;
constexpr int64_t kMostMiB = int64_t{1} << 40;

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

Error over_read_budget(const std::string& path, const std::string& what, uint64_t budget) {
  return Error({.op = path,
                .argument = what,
                .message = "reading it would take more than " + std::to_string(budget / kMiB) +
                           " MiB of memory beyond its data",
                .fix = "where the file can be trusted, set KEEL_READ_BUDGET_MIB to more"});
}

}  // namespace keel
