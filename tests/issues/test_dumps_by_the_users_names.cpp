// `--dump-layer loss` was refused, though named() had given a node that name: the device computes a
// mean in parts, which have names of their own.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/tensor/npy.h"
#include "keel/keel.h"

#include "support/error_of.h"
#include "support/temp_folder.h"
#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::names_in;
using keel_test::TempFolder;

// A step that computes the means of x and of its squares, beside a quotient of another line.
struct Model {
  Model() {
    const NameScope scope(graph, "net");
    loss = named(mean(x), "loss");
    {
      const NameScope inner(graph, "inner");
      level = mean(x * x);
    }
    total = loss + level + sum(w / 4.0f);
  }
  Graph graph;
  Value x = graph.input("x", f32, {-1});
  Value w = graph.state("w", zeros({}));
  Value loss, level, total;
};

std::shared_ptr<testing::NumberFeeder> repeated_row(const Device& on) {
  auto feeder = std::make_shared<testing::NumberFeeder>(
      on, ElementSpec{{{"x", {f32, {4}}}}}, [](int64_t, const std::vector<void*>& fields) {
        const std::vector<float> x = {1, 3, 5, 7};
        std::copy(x.begin(), x.end(), static_cast<float*>(fields[0]));
        return true;
      });
  feeder->open({});
  return feeder;
}

// Returns the files of a step's outputs of these layers.
std::vector<std::string> files_of(const std::string& folder, const char* backend,
                                  const std::vector<std::string>& layers) {
  Model m;
  Session session(m.graph, device(backend));
  Trainer trainer(session, {.update = Update{{{m.w, m.w + m.total}}},
                            .fetches = {m.total},
                            .source = repeated_row(session.device())});
  const TrainReport report =
      trainer.fit({.steps = 1, .dump = {.enable_dump = true, .path = folder, .layers = layers}});
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(report.dump_folder + "/0/model/0/1"))
    files.push_back(entry.path().string());
  return files;
}

}  // namespace

TEST_CASE("a named mean that a device computes in parts is dumped by its name") {
  for (const char* backend : {"npu", "cpu", "ref"}) {
    CAPTURE(backend);
    const TempFolder folder;
    const auto files = files_of(folder.path(), backend, {"net/loss"});
    REQUIRE(files.size() == 1);
    CHECK(read_npy(files[0]).item<float>() == 4);  // (1 + 3 + 5 + 7) / 4
  }
}

TEST_CASE("a mean without a name of its own is dumped by that of its op") {
  const TempFolder folder;
  const auto files = files_of(folder.path(), "npu", {"net/inner/mean"});
  REQUIRE(files.size() == 1);
  CHECK(read_npy(files[0]).item<float>() == 21);  // (1 + 9 + 25 + 49) / 4
}

TEST_CASE("a name that no node of the graph has is refused as before") {
  const TempFolder folder;
  const std::string error = error_of([&] { files_of(folder.path(), "npu", {"net/loss/mean"}); });
  CHECK_MESSAGE(contains(error, "dump_layer: expected names of nodes that are computed"), error);
  CHECK(folder.empty());
}

TEST_CASE("a dump makes its folder and leaves none where it is refused") {
  const TempFolder folder;
  CHECK(error_of([&] { files_of(folder.file("a/b"), "npu", {"lost"}); }) != "");
  CHECK(folder.empty());
  CHECK(files_of(folder.file("a/b"), "npu", {"net/loss"}).size() == 1);
}

TEST_SUITE_END();
