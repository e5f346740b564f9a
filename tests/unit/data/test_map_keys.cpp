// Which functions of map are handed a key: those that draw random numbers.
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/random.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"
#include "keel/graph/runtime/graph_function.h"

#include "number_element_for_tests.h"

TEST_SUITE_BEGIN("pipeline");

namespace {

using namespace keel;
using keel::testing::kNumber;

// Writes its key, and counts.
class Keys final : public ElementFunction {
 public:
  explicit Keys(bool draws) : draws_(draws) {}
  const ElementSpec& input() const override { return kNumber; }
  const ElementSpec& output() const override { return kNumber; }
  bool draws() const override { return draws_; }
  void apply(std::span<const void* const>, std::span<void* const> out,
             uint64_t key) const override {
    ++calls;
    if (key != 0) ++keys;
    *static_cast<int64_t*>(out[0]) = static_cast<int64_t>(key);
  }
  mutable std::atomic<int> calls = 0, keys = 0;

 private:
  bool draws_;
};

}  // namespace

TEST_CASE("map: a function that draws nothing gets no key") {
  const Dataset indexed = Dataset::from_tensors({{"n", Tensor(i64, {50})}});
  const Dataset in_order = indexed.filter([](const ItemView&) { return true; });
  for (const Dataset& source : {indexed, in_order}) {
    for (const int threads : {1, 3}) {
      for (const bool draws : {false, true}) {
        const auto function = std::make_shared<Keys>(draws);
        DatasetIterator items(source.map(function, {.threads = threads}).batch(25));
        std::set<int64_t> seen;
        while (const auto batch = items.next()) {
          for (const int64_t key : batch->at(0).data<int64_t>()) seen.insert(key);
        }
        CHECK(function->calls == 50);
        CHECK(function->keys == (draws ? 50 : 0));
        std::set<int64_t> expected;
        for (uint64_t item = 0; item < 50; ++item)
          expected.insert(draws ? static_cast<int64_t>(fold_key(fold_key(0, 0), item)) : 0);
        CHECK(seen == expected);
      }
    }
  }
}

TEST_CASE("map: a graph draws nothing") {
  const auto same = graph_function(kNumber, device("ref"), [](const Values& in) {
    return NamedValues{{"n", in[0]}};
  });
  CHECK_FALSE(same->draws());
}

TEST_SUITE_END();
