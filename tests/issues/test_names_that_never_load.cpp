// A state whose name is not UTF-8 was saved and never loaded again: names are checked where they
// are given.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel {

using keel_test::contains;
using keel_test::error_of;

TEST_SUITE_BEGIN("names");

TEST_CASE("names that are no UTF-8 text are refused where they are given") {
  const std::string bad[] = {std::string("w\xff"),
                             "\xc0\xaf",
                             "\xed\xa0\x80",
                             "\xf5\x80\x80\x80",
                             std::string("\xe2\x82"),
                             "a\nb",
                             std::string("a\0b", 3),
                             "\x1b[2J",
                             "\x7f",
                             "\xe2\x80\xae"
                             "abc"};
  for (const std::string& name : bad) {
    CAPTURE(name);
    Graph g;
    const std::string state = error_of([&] { g.state(name, zeros({2})); });
    CHECK(contains(state, "state: name: expected UTF-8 text without control characters, got '"));
    CHECK(contains(state, "test_names_that_never_load.cpp:" + std::to_string(__LINE__ - 2)));
    const std::string input = error_of([&] { g.input(name, f32, {2}); });
    CHECK(contains(input, "input: name: expected UTF-8 text without control characters, got '"));
    const Value x = g.input("x", f32, {2, 2});
    CHECK(contains(error_of([&] { dense(x, 3, {.name = name}); }), "without control characters"));
    CHECK(g.size() == 1);
  }
}

TEST_CASE("names that a graph takes come back from a saved file and from text") {
  const keel_test::TempFolder folder;
  Graph g;
  for (const char* name : {"w", "mit Umlaut \xc3\xa4", "\xe9\x87\x8d\xe3\x81\xbf", "a b", "a\"b\\c",
                           "\xf0\x9f\x98\x80", "encoder/0/attention"}) {
    g.state(name, constant({2}, 3));
  }
  Session session(g, device("cpu"));
  session.save(folder.file("states"));
  Session other(g, device("cpu"), {.seed = 1});
  other.load(folder.file("states"));
  CHECK(other.state_sha256() == session.state_sha256());
  CHECK(print_graph(*parse_graph(print_graph(g))) == print_graph(g));
}

TEST_SUITE_END();

}  // namespace keel
