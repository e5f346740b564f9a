// Small files made their readers take gigabytes: compressed images that claim (or are) a thousand
// times their size, CSV fields of any length, JSON of empty arrays, Fortran order, graph text with
// a state of a billion elements.
#include <cstring>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/core/base/json.h"
#include "keel/core/tensor/npy.h"
#include "keel/data/formats/csv.h"
#include "keel/data/formats/idx.h"
#include "keel/graph/ir/initializer.h"
#include "keel/graph/ir/text.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/idx_bytes.h"
#include "support/sanitizer.h"
#include "support/temp_folder.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;
using keel_test::gzip;
using keel_test::idx_bytes;
using keel_test::kSanitized;
using keel_test::TempFolder;

constexpr int64_t kMiB = int64_t{1} << 20;

// How many bytes of memory the process had in hand at most since this was made, beyond what it had
// then (Linux: VmHWM, which a 5 in clear_refs sets back).
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << "5";
    before_ = status("VmRSS:");
  }
  int64_t grown() const { return status("VmHWM:") - before_; }

 private:
  static int64_t status(const std::string& field) {
    std::ifstream in("/proc/self/status");
    for (std::string word; in >> word;) {
      int64_t kib = 0;
      if (word == field && in >> kib) return kib * 1024;
    }
    return 0;
  }
  int64_t before_;
};

// A gzip file that claims so many images of 28 x 28 and holds `mebibytes` of zeros behind `begin`.
std::string images(uint32_t claimed, const std::string& begin, int mebibytes) {
  std::string bytes = gzip(idx_bytes({claimed, 28, 28}, begin));
  const std::string zeros = gzip(std::string(kMiB, '\0'));
  for (int i = 0; i < mebibytes; ++i) bytes += zeros;
  return bytes;
}

std::string incompressible(size_t count) {
  std::string bytes;
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a compressed file of 4 MB that is or claims 4 GiB of images is refused at once") {
  const TempFolder temp;
  // 5.47 million images are 4,090 MiB.
  for (const int there : {4000, 4090}) {
    const std::string path = temp.write("images.gz", images(5470000, "", there));
    const PeakMemory memory;
    const std::string error = error_of([&] { read_idx(path, 3); });
    CHECK(contains(error, "need 4288480000 bytes, the limit is 268435456"));
    CHECK(contains(error, "--read-budget"));
    CHECK(memory.grown() < 16 * kMiB);
  }
}

TEST_CASE("a compressed file takes memory as its data comes and not as it claims") {
  const TempFolder temp;
  const std::string path =
      temp.write("images.gz", images(340000, incompressible(300000), 10));  // claims 254 MiB
  const PeakMemory memory;
  CHECK(contains(error_of([&] { read_idx(path, 3); }), "truncated"));
  CHECK(memory.grown() < 32 * kMiB);
}

TEST_CASE("the budget of a compressed file can be raised and lowered") {
  const TempFolder temp;
  const std::string path = temp.write("images.gz", images(1000, std::string(784000, 1), 0));
  CHECK(read_idx(path, 3, 784000).num_elements() == 784000);
  CHECK(contains(error_of([&] { read_idx(path, 3, 783999); }), "the limit is 783999"));
}

TEST_CASE("a CSV field of any length is refused while it is read") {
  const TempFolder temp;
  const std::string long_field(48 * kMiB, '7');
  for (const std::string& text : {"a,b\n1,\"" + long_field, "a,b\n1," + long_field + "\n"}) {
    const std::string path = temp.write("long.csv", text);
    const PeakMemory memory;
    CHECK(contains(error_of([&] { read_csv(path, {{"x", f32, {}}}); }), "a field of more than"));
    CHECK(memory.grown() < 16 * kMiB);
  }
  const std::string path = temp.write("wide.csv", std::string(8 * kMiB, ',') + "\n");
  const PeakMemory memory;
  CHECK(contains(error_of([&] { read_csv(path, {{"x", f32, {}}}); }), "columns"));
  CHECK(memory.grown() < 64 * kMiB);
}

TEST_CASE("a CSV file takes the memory of its numbers") {
  const TempFolder temp;
  std::string text = "a,b\n";
  for (int i = 0; i < 2000000; ++i) text += "1,2\n";
  const std::string path = temp.write("numbers.csv", text);
  const PeakMemory memory;
  const auto fields = read_csv(path, {{"x", f64, {}}});
  CHECK(memory.grown() < 32000000 + 8 * kMiB);
  CHECK(fields[0].second.shape() == Shape{2000000, 2});
  CHECK(fields[0].second.at(3999999) == 2);
  CHECK(contains(error_of([&] {
                   read_csv(path, {{"x", f64, {}}}, {.max_bytes = 31999999});
                 }),
                 "2000000 records need 32000000 bytes, the limit is 31999999"));
}

TEST_CASE("JSON of many small values is refused before they fill the memory") {
  if (kSanitized) {
    MESSAGE("keel test skipped: a sanitizer's own memory would be counted");
    return;
  }
  std::string arrays = "[[]", numbers = "[1", members = "{\"0\":0";
  for (int i = 1; i < 3000000; ++i) {
    arrays += ",[]";
    members += ",\"" + std::to_string(i) + "\":0";
  }
  for (int i = 0; i < 12000000; ++i) numbers += ",1";
  for (const std::string& text : {arrays + "]", numbers + "]", members + "}"}) {
    const PeakMemory memory;
    CHECK(contains(error_of([&] { parse_json(text, "small.json"); }), "would take more than"));
    CHECK(memory.grown() < 256 * kMiB);
  }
}

TEST_CASE("a Fortran-ordered array takes its own memory once") {
  const TempFolder temp;
  std::string header = "{'descr': '<f4', 'fortran_order': True, 'shape': (1000, 8000), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += {static_cast<char>(header.size()), 0};
  bytes += header + std::string(32000000, '\0');
  // Element [3, 5] of the array.
  const float value = 7;
  std::memcpy(&bytes[10 + header.size() + (5 * 1000 + 3) * 4], &value, 4);
  const std::string path = temp.write("array.npy", bytes);
  const PeakMemory memory;
  const Tensor array = read_npy(path);
  CHECK(memory.grown() < 32000000 + 12 * kMiB);
  CHECK(array.at(3 * 8000 + 5) == 7);
  CHECK(array.at(5 * 1000 + 3) == 0);
}

TEST_CASE("graph text asks for no more states than it may") {
  const std::string text =
      "graph {\n  %0 = state() {name=\"w\", type=[f32[1000000000]]} : f32[1000000000]\n"
      "  outputs (%0)\n}\n";
  const std::string error = error_of([&] { parse_graph(text); });
  CHECK(contains(error, "graph text: 2:3"));
  CHECK(contains(error, "states of at most 268435456 bytes together, got 4000000000"));
  const auto graph = parse_graph(text, builtin_ops(), {.max_state_bytes = 4000000000});
  CHECK(graph->outputs()[0].shape() == Shape{1000000000});
}

TEST_CASE("a random initial value takes its own memory once") {
  for (const char* kind : {"normal", "uniform"}) {
    const PeakMemory memory;
    const Tensor value = initial_value({.kind = kind, .type = {f32, {8000000}}, .a = 0, .b = 1}, 7);
    CHECK(memory.grown() < 32000000 + 8 * kMiB);
    const Tensor part = initial_value({.kind = kind, .type = {f32, {5000}}, .a = 0, .b = 1}, 7);
    for (const int64_t i : {0, 4095, 4096, 4999}) CHECK(value.at(i) == part.at(i));
  }
}

TEST_SUITE_END();

}  // namespace keel
