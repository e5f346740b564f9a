// Errors, call sites and results.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "keel/core/base/call_site.h"
#include "keel/core/base/error.h"
#include "keel/core/base/result.h"

namespace {

using keel::CallSite;
using keel::Error;
using keel::Result;

int line_of(CallSite site = CallSite::here()) { return site.line; }

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("an error says op argument expected got fix and line") {
  const Error error({.op = "matmul",
                     .argument = "b",
                     .expected = "shape [784, ?]",
                     .got = "[783, 10]",
                     .fix = "transpose it",
                     .site = {"model.cpp", 12}});
  CHECK(std::string(error.what()) ==
        "matmul: b: expected shape [784, ?], got [783, 10]; transpose it (model.cpp:12)");
  CHECK(error.info().argument == "b");
  CHECK(error.info().kind == keel::ErrorKind::kFailed);
}

TEST_CASE("an error leaves out what is empty") {
  CHECK(std::string(Error("plain").what()) == "plain");
  CHECK(std::string(Error(std::string("plain")).what()) == "plain");
  CHECK(std::string(Error({.op = "a", .message = "b"}).what()) == "a: b");
  CHECK(std::string(Error({.op = "a", .expected = "b"}).what()) == "a: expected b");
  CHECK(std::string(Error({.op = "a", .got = "b"}).what()) == "a: got b");
  CHECK(std::string(Error({.op = "a", .expected = "c", .message = "b"}).what()) ==
        "a: b, expected c");
  CHECK(std::string(Error({.message = "b", .fix = "d"}).what()) == "b; d");
}

TEST_CASE("context is put in front and a site is added once") {
  const Error error({.op = "exp", .message = "bad"});
  CHECK(std::string(error.with_context("step 17").what()) == "step 17: exp: bad");
  const Error sited = error.with_site({"a.cpp", 1});
  CHECK(std::string(sited.what()) == "exp: bad (a.cpp:1)");
  CHECK(std::string(sited.with_site({"b.cpp", 2}).what()) == "exp: bad (a.cpp:1)");
  CHECK(std::string(error.with_site({}).what()) == "exp: bad");
  CHECK(std::string(sited.with_context("step 1").what()) == "step 1: exp: bad (a.cpp:1)");
}

TEST_CASE("a call site is the caller's line") {
  CHECK(line_of() == __LINE__);
  CHECK(to_string(CallSite{"m.cpp", 3}) == "m.cpp:3");
  CHECK(to_string(CallSite{}) == "unknown line");
  std::string name = "graph.txt";
  const char* interned = keel::intern_file(name);
  name = "changed";
  CHECK(std::string(interned) == "graph.txt");
  CHECK(keel::intern_file("graph.txt") == interned);
}

TEST_CASE("a result holds a value or an error") {
  Result<std::string> good = std::string("yes");
  CHECK(good.ok());
  CHECK(good.value() == "yes");
  CHECK(std::move(good).value() == "yes");
  const Result<int> bad = Error("no");
  CHECK_FALSE(bad);
  CHECK(std::string(bad.error().what()) == "no");
  CHECK_THROWS_AS(bad.value(), Error);
}

TEST_SUITE_END();
