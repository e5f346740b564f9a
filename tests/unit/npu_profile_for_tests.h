// What the tests of the NPU's profile share: a training of a small MLP, a folder, and a table of
// CSV.
#ifndef KEEL_TESTS_UNIT_NPU_PROFILE_FOR_TESTS_H
#define KEEL_TESTS_UNIT_NPU_PROFILE_FOR_TESTS_H

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/csv.h"
#include "keel/core/base/file.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/fusion.h"

namespace npu_profile_test {

using namespace keel;

// A folder that goes with the test.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("keel_" + name)) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path() const { return path_.string(); }
  std::string read(const std::string& name) const {
    return read_file(path() + "/" + name, 1 << 28);
  }

 private:
  std::filesystem::path path_;
};

// A training step of a small MLP, sunk, fed by a queue.
struct Training {
  explicit Training(const std::string& backend = "npu", bool fuse = true,
                    const std::shared_ptr<const DeviceOptions>& options = {}) {
    const Value image = graph.input("image", u8, {-1, 784});
    const Value label = graph.input("label", u8, {-1});
    const Value hidden = relu(dense(cast(image, f32) / 255.0f, 512, {.name = "hidden"}));
    const Value loss = mean(softmax_cross_entropy(dense(hidden, 10, {.name = "logits"}), label));
    const Update update = sgd(0.1).minimize(loss);
    session.emplace(graph, device(backend + ":0"),
                    SessionOptions{.disabled_passes = keel_test::fusion(fuse),
                                   .precision = "fp32",
                                   .device_options = options});
    const ElementSpec element{{{"image", {u8, {100, 784}}}, {"label", {u8, {100}}}}};
    auto queue = std::make_shared<DeviceQueue>(session->device(), element);
    loop.emplace(session->sink({.update = update, .fetches = {loss}, .source = queue}));
  }
  Graph graph;
  std::optional<Session> session;
  std::optional<Loop> loop;
};

struct Table {
  explicit Table(const std::string& text) : rows(parse_csv(text, "table")) {}
  size_t column(const std::string& name) const {
    const auto it = std::find(rows[0].begin(), rows[0].end(), name);
    REQUIRE((it != rows[0].end()));
    return static_cast<size_t>(it - rows[0].begin());
  }
  double number(size_t row, const std::string& name) const {
    return std::atof(rows[row][column(name)].c_str());
  }
  std::vector<CsvRow> rows;
};

}  // namespace npu_profile_test

#endif  // KEEL_TESTS_UNIT_NPU_PROFILE_FOR_TESTS_H
