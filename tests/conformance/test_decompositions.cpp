// Decompositions of every op that has one, against its reference and within its bound.
#include <doctest/doctest.h>

#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/conformance/cases.h"
#include "keel/ops/conformance/tolerance.h"

#include "conformance/scale.h"

TEST_SUITE_BEGIN("conformance");

namespace keel::conformance {

TEST_CASE("decompositions agree with references") {
  for (const OpDef* op : computing_ops()) {
    if (op->decompose == nullptr) continue;
    const std::string problem =
        check_all_dtypes(*op, cases_for_each_op(), [op](const Case& c) -> std::string {
          const auto whole = specialise_case(c, c.outputs);
          const auto parts = decompose(*whole, [op](const Node& node) -> Support {
            return {.supported = node.op_name() != op->name, .reason = "under test"};
          });
          verify(*parts);
          const Evaluation expected(*whole, c.tensors);
          return compare_outputs(Evaluation(*parts, c.tensors).outputs(), *whole, expected);
        });
    CHECK_MESSAGE(problem.empty(), problem);
  }
}

}  // namespace keel::conformance

TEST_SUITE_END();
