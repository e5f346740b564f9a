// A safetensors header of 98 MB took 1.95 GiB to read, and 1.7 million empty tensors 1.8 GiB.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "keel/core/base/read_budget.h"
#include "keel/graph/runtime/safetensors.h"

#include "support/error_of.h"
#include "support/safetensors_bytes.h"
#include "support/sanitizer.h"
#include "support/scale.h"
#include "support/temp_folder.h"

namespace {

using namespace keel_test;

// What a process of its own needed at most for `action`, beyond what it had; in KiB. -1 where the
// action did not say yes.
int64_t peak_kib_of(const std::function<bool()>& action) {
  int result[2];
  REQUIRE(pipe(result) == 0);
  const pid_t child = fork();
  if (child == 0) {
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    const bool done = action();
    getrusage(RUSAGE_SELF, &after);
    const int64_t kib = done ? after.ru_maxrss - before.ru_maxrss : -1;
    _exit(write(result[1], &kib, sizeof kib) == sizeof kib ? 0 : 1);
  }
  int64_t kib = -1;
  close(result[1]);
  const bool read_all = read(result[0], &kib, sizeof kib) == sizeof kib;
  close(result[0]);
  waitpid(child, nullptr, 0);
  return read_all ? kib : -1;
}

// Headers that cost their reader most for each of their bytes, about `bytes` long.
std::string many_tensors(size_t bytes) {
  std::string header = "{";
  for (int i = 0; header.size() < bytes; ++i) {
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) +
              "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  }
  return header + "}";
}
std::string filled(const std::string& begin, const std::string& part, size_t bytes,
                   const std::string& end) {
  std::string header = begin;
  while (header.size() < bytes) header += part;
  return header + end;
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("safetensors: hostile headers take no more memory than the budget") {
  if (kSanitized) {
    MESSAGE("keel test skipped: a sanitizer's own memory would be counted");
    return;
  }
  // The limit of the format and the default budget, or the same in small.
  const bool whole = keel_test::long_scale();
  const uint64_t budget = keel::read_budget() / (whole ? 1 : 16);
  const size_t bytes = whole ? 98'000'000 : 98'000'000 / 16;
  const std::string headers[] = {
      many_tensors(bytes),
      filled("{\"a\":[[]", ",[]", bytes, "]}"),
      filled("{\"__metadata__\":{\"k\":\"", "x", bytes, "\"}}"),
      filled("{\"a\":[0", ",0", bytes, "]}"),
      filled("{", " ", bytes, "}"),
  };
  const TempFolder folder;
  for (const std::string& header : headers) {
    const std::string path = folder.write("hostile", safetensors_bytes(header, ""));
    const int64_t kib = peak_kib_of([&] {
      keel::set_read_budget(budget);
      return !error_of([&] { keel::read_safetensors(path); }).empty();
    });
    MESSAGE(header.substr(0, 20) << " ...: " << kib << " KiB of " << budget / 1024);
    CHECK(kib >= 0);
    CHECK(kib <= static_cast<int64_t>(budget / 1024));
  }
}

TEST_CASE("safetensors: the budget can be raised and its error says how") {
  const std::string header = many_tensors(1'000'000);
  const std::string bytes = safetensors_bytes(header, "");
  const uint64_t before = keel::read_budget();
  keel::set_read_budget(uint64_t{4} << 20);
  const std::string error = error_of([&] { keel::parse_safetensors(bytes, "many"); });
  CHECK(contains(error, "many: "));
  CHECK(contains(error, "4 MiB"));
  CHECK(contains(error, "KEEL_READ_BUDGET_MIB, or --read-budget"));
  keel::set_read_budget(before);
  CHECK(keel::parse_safetensors(bytes, "many").tensors.size() > 10000);
}

TEST_CASE("safetensors: whatever the budget is a file is read or refused by its name") {
  const std::string bytes = safetensors_bytes(many_tensors(100'000), "");
  const uint64_t before = keel::read_budget();
  int refused = 0, read = 0;
  for (uint64_t budget = 1000; budget < (uint64_t{16} << 20); budget += budget / 3) {
    CAPTURE(budget);
    keel::set_read_budget(budget);
    const std::string error = error_of([&] { keel::parse_safetensors(bytes, "many"); });
    if (!error.empty()) CHECK(contains(error, "KEEL_READ_BUDGET_MIB"));
    ++(error.empty() ? read : refused);
  }
  keel::set_read_budget(before);
  CHECK(refused > 0);
  CHECK(read > 0);
}

TEST_SUITE_END();
