// What the tests of the NPU's device model share: graphs of one op, and RapidCheck with a number of
// cases of the test's own.
#ifndef KEEL_TESTS_UNIT_NPU_MODEL_FOR_TESTS_H
#define KEEL_TESTS_UNIT_NPU_MODEL_FOR_TESTS_H

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <rapidcheck.h>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/npu/presets/preset.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/error.h"
#include "keel/core/base/random.h"
#include "keel/graph/ir/graph.h"

#include "support/error_of.h"

namespace npu_model_test {

using keel_test::contains;
using keel_test::error_of;

// The only node of that op in a graph.
inline const keel::Node& node_of(const keel::Graph& graph, const std::string& op) {
  const keel::Node* found = nullptr;
  for (const keel::Node& node : graph.nodes()) {
    if (node.op_name() == op) found = &node;
  }
  REQUIRE((found != nullptr));
  return *found;
}

// True where `property` held in `cases` random cases.
template <class Property>
bool holds(const char* name, int cases, Property property) {
  rc::detail::TestMetadata metadata;
  metadata.description = name;
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = cases;
  // The same cases in every run, unless RapidCheck is told otherwise.
  if (std::getenv("RC_PARAMS") == nullptr) params.seed = keel::fold_key(0, name);
  const auto result = rc::detail::checkTestable(std::move(property), metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return true;
  rc::detail::printResultMessage(result, std::cerr);
  std::cerr << "\n";
  return false;
}

inline constexpr int kCases = 10000;

}  // namespace npu_model_test

#endif  // KEEL_TESTS_UNIT_NPU_MODEL_FOR_TESTS_H
