// Errors of objects that std::make_unique or an optional's emplace made ended with a line of the
// standard library, in which a constructor's default CallSite then lies.
#include <memory>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

constexpr const char* kThisFile = "test_errors_of_what_others_make.cpp:";

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an error of a session that emplace made names no line of the standard library") {
  Graph g;
  const SessionOptions wrong{.precision = Precision::named("cube_hif8")};
  std::optional<Session> made;
  const std::string emplaced = error_of([&] { made.emplace(g, device("npu"), wrong); });
  CHECK_MESSAGE(contains(emplaced, "needs hif8"), emplaced);
  CHECK_MESSAGE(!contains(emplaced, "/include/"), emplaced);
  const std::string owned = error_of([&] { std::make_unique<Session>(g, device("npu"), wrong); });
  CHECK(owned == emplaced);
  const std::string given = error_of([&] { Session(g, device("npu"), wrong); });
  CHECK_MESSAGE(contains(given, kThisFile), given);
}

TEST_CASE("a line of the standard library leaves room for one that is further out") {
  const auto thrown = [](CallSite site) { return Error({.op = "op", .site = site}); };
  const CallSite library{"/usr/include/c++/12/bits/unique_ptr.h", 9}, user{"model.cpp", 7};
  CHECK(std::string(thrown(library).what()) == "op");
  CHECK(std::string(thrown(library).with_site(user).what()) == "op (model.cpp:7)");
  CHECK(std::string(thrown({}).with_site(library).with_site(user).what()) == "op (model.cpp:7)");
  CHECK(std::string(thrown(user).with_site(library).what()) == "op (model.cpp:7)");
}

}  // namespace keel
