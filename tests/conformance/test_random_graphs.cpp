// Whole steps on every backend: random graphs whose values meet views of themselves, with updates,
// loops, branches, products and gradients, fused and not fused. The graphs hold small whole
// numbers, so that every result is exact and `ref` must be met to the last digit.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"

#include "support/fusion.h"
#include "support/random_graph.h"
#include "support/scale.h"

namespace keel {
namespace {

// Returns how many graphs a test draws: 75, or 5000 with KEEL_TEST_SCALE=long.
uint64_t graphs_to_run() { return keel_test::long_scale() ? 5000 : 75; }

// The fetches of two steps and then the states.
std::vector<Tensor> run_two_steps(keel_test::RandomGraph& random, const std::string& device_name,
                                  bool fuse) {
  Graph& g = *random.graph;
  Session session(g, device(device_name), {.disabled_passes = keel_test::fusion(fuse)});
  Feeds feeds;
  for (const Value& v : g.inputs()) feeds.emplace_back(v, random.feeds.at(name_of(v.node())));
  std::vector<Value> states;
  for (const Value& v : g.states()) {
    const auto value = random.feeds.find(name_of(v.node()));
    if (value == random.feeds.end()) continue;  // the session's own
    session.write(v, value->second);
    states.push_back(v);
  }
  std::vector<Tensor> results;
  for (int step = 0; step < 2; ++step) {
    for (Tensor& t : session.run(Update{g.updates()}, g.outputs(), feeds)) {
      results.push_back(std::move(t));
    }
  }
  for (const Value& v : states) results.push_back(session.read(v));
  return results;
}

// As numbers: the sign of a zero may differ between backends.
bool same_numbers(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (int64_t k = 0; k < a[i].shape().num_elements(); ++k) {
      if (a[i].at(k) != b[i].at(k)) return false;
    }
  }
  return a.size() == b.size();
}

// Runs graphs of the kind that `options_of` gives to a seed.
template <class F>
void check_graphs(F options_of) {
  uint64_t wrong = 0;
  for (uint64_t seed = 0; seed < graphs_to_run(); ++seed) {
    keel_test::RandomGraphOptions options = options_of(static_cast<int>(seed));
    options.whole_numbers = true;
    keel_test::RandomGraph random = keel_test::random_graph(seed, options);
    const std::vector<Tensor> expected = run_two_steps(random, "ref", false);
    bool right = true;
    for (const std::string where : {"cpu", "npu"}) {
      CAPTURE(seed);
      CAPTURE(where);
      const std::vector<Tensor> unfused = run_two_steps(random, where, false);
      const std::vector<Tensor> fused = run_two_steps(random, where, true);
      const bool same_bits = keel_test::all_bit_equal(unfused, fused);
      CHECK(same_bits);
      const bool as_ref = same_numbers(expected, unfused);
      CHECK(as_ref);
      right = right && same_bits && as_ref;
    }
    wrong += right ? 0 : 1;
  }
  MESSAGE(graphs_to_run() << " graphs, " << wrong << " wrong");
}

}  // namespace

TEST_SUITE_BEGIN("conformance");

TEST_CASE("random graphs of views are the same fused and unfused and on ref") {
  check_graphs([](int seed) { return keel_test::RandomGraphOptions{.nodes = 4 + seed % 13}; });
}

TEST_CASE("random graphs of views with products are the same fused and unfused and on ref") {
  check_graphs([](int seed) {
    return keel_test::RandomGraphOptions{.nodes = 4 + seed % 13, .products = true};
  });
}

TEST_CASE(
    "random graphs of views with loops and branches are the same fused and unfused and on ref") {
  check_graphs([](int seed) {
    return keel_test::RandomGraphOptions{
        .nodes = 4 + seed % 13, .products = seed % 2 == 0, .control = true};
  });
}

TEST_CASE("random graphs of views have the same gradients fused and unfused and on ref") {
  check_graphs([](int seed) {
    return keel_test::RandomGraphOptions{.nodes = 1 + seed % 7,
                                         .products = seed % 3 == 0,
                                         .control = seed % 4 == 1,
                                         .gradients = true};
  });
}

TEST_SUITE_END();

}  // namespace keel
