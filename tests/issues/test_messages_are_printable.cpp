// Control characters of names, arguments and keys reached terminals and files raw, a NUL cut a
// message short, and messages were as long as what they quote.
#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/backends/registry.h"
#include "keel/core/base/json.h"
#include "keel/core/base/log.h"
#include "keel/core/base/printable.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

const std::string kRed = "\x1b[31m";

bool printable_only(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') return false;
  }
  return true;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("printable text has no control characters and all else as it was") {
  CHECK(printable("a b\\c \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "a b\\c \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\n\r\t\x1b\x7f") == "\\n\\r\\t\\x1b\\x7f");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\u009b2J");  // CSI in one character
  CHECK(printable("\xe2\x80\xae"
                  "abc") ==
        "\\u202e"
        "abc");  // writes backwards
  CHECK(printable("\xff \xc3 \xed\xa0\x80 \xc0\x80") == "\\xff \\xc3 \\xed\\xa0\\x80 \\xc0\\x80");
  CHECK(printable(printable("\x1b\n\xff")) == printable("\x1b\n\xff"));
  CHECK(printable_lines("a\nb\x1b") == "a\nb\\x1b");
}

TEST_CASE("long text keeps both ends and says how much is left out") {
  const std::string text = printable("begin" + std::string(900000, 'x') + "end", 100);
  CHECK(text.size() < 150);
  CHECK(text.rfind("begin", 0) == 0);
  CHECK(text.substr(text.size() - 3) == "end");
  CHECK(contains(text, "899908 bytes left out"));
  // No character is cut in two.
  for (size_t most = 10; most < 20; ++most) {
    std::string euros;
    for (int i = 0; i < 20; ++i) euros += "\xe2\x82\xac";
    CHECK_FALSE(contains(printable(euros, most), "\\x"));
  }
}

TEST_CASE("errors quote names as text that a terminal may have and in full to the last word") {
  const std::string name = kRed + std::string("w\0hidden\n", 9);
  Graph g;
  const std::string error = error_of([&] { g.input(name, f32, {2}); });
  CHECK(contains(error, "\\x1b[31mw\\x00hidden\\n"));
  CHECK(contains(error, "test_messages_are_printable.cpp:"));
  CHECK(printable_only(error));
  CHECK(printable_only(error_of([&] { device(kRed); })));
  CHECK(printable_only(error_of([&] {
    parse_json("{\"" + std::string("\\u001b[31m") + "\":1,\"" + "\\u001b[31m\":2}", kRed + ".json");
  })));
  CHECK(printable_only(error_of([&] { parse_graph("graph {" + kRed); })));
  CHECK(printable_only(Error("a").with_context(kRed).what()));
  CHECK(printable_only(Error("a").with_site({"\x1b.cpp", 1}).what()));
}

TEST_CASE("an error that quotes a megabyte is short and keeps its end") {
  const std::string huge(900000, 'x');
  const std::string error = error_of([&] { device(huge); });
  CHECK(error.size() < 6000);
  CHECK(contains(error, "bytes left out"));
  CHECK(contains(error_of([&] { throw Error("last words").with_context(huge); }), "last words"));
}

TEST_CASE("logged lines are printable and short") {
  std::string lines;
  set_log_sink([&](LogLevel, const std::string& line) { lines += line; });
  log_warn(kRed + std::string(900000, 'x') + "\n");
  set_log_sink({});
  CHECK(printable_only(lines));
  CHECK(lines.size() < 9000);
}

TEST_CASE("DOT shows quotes and backslashes of names and other names are refused") {
  Graph g;
  CHECK(printable_only(error_of([&] { g.state("w\x7f" + kRed + "\xc2\x9b", ones({2})); })));
  const Value w = g.state("w\\n\"", ones({2}));
  g.set_outputs({w + 1.0f});
  CHECK(contains(to_dot(g), "w\\\\n\\\""));
}

TEST_CASE("numbers in messages are the shortest that read back") {
  CHECK(printable(1e-9) == "1e-09");
  CHECK(printable(-1e-50) == "-1e-50");
  CHECK(printable(3.0) == "3");
  CHECK(printable(0.1) == "0.1");
  CHECK(printable(-1 / 0.0) == "-inf");
  CHECK(printable(std::nan("")) == "nan");
}

TEST_SUITE_END();

}  // namespace keel
