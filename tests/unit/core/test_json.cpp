// The JSON reader and writer.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/core/base/json.h"

#include "support/error_of.h"

namespace {

using keel::Json;
using keel::JsonView;
using keel::parse_json;

using keel_test::error_of;

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_json(text, "x.json"); });
}

bool begins_with(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("json reads every kind of value") {
  const Json json = parse_json(
      R"( {"a": [1, -2, 2.5, 1e3, true, false, null, "x\n\u00e9"], "b": {}} )", "x.json");
  CHECK(json["a"][0].get<int>() == 1);
  CHECK(json["a"][1].get<int>() == -2);
  CHECK(json["a"][2].get<double>() == 2.5);
  CHECK(json["a"][3].get<double>() == 1000.0);
  CHECK(json["a"][4].get<bool>());
  CHECK(json["a"][6].is_null());
  CHECK(json["a"][7].get<std::string>() == "x\n\xc3\xa9");
  CHECK(json["b"].is_object());
  CHECK(parse_json("9223372036854775807", "x").get<int64_t>() == INT64_MAX);
  CHECK(parse_json("-9223372036854775808", "x").get<int64_t>() == INT64_MIN);
  CHECK(parse_json(" 3 ", "x").get<int>() == 3);
}

TEST_CASE("json errors name source line and column") {
  CHECK(begins_with(parse_error("{\n  \"a\": 1,\n  \"b\": x\n}"), "x.json:3:8: "));
  CHECK(begins_with(parse_error("[1,]"), "x.json:1:4: "));
  CHECK(begins_with(parse_error(""), "x.json:1:1: "));
  CHECK(begins_with(parse_error("[1] 2"), "x.json:1:5: "));
  CHECK(begins_with(parse_error("{\"a\": 1,\n \"a\": 2}"),
                    "x.json:2:4: the key \"a\" stands here twice"));
}

TEST_CASE("json refuses what is not strict") {
  for (const char* text : {"{\"a\": 1 // c\n}",
                           "{'a': 1}",
                           "[1, 2",
                           "{\"a\" 1}",
                           "nul",
                           "NaN",
                           "[Infinity]",
                           "01",
                           "+1",
                           "1.",
                           ".5",
                           "\"\x01\"",
                           "\"\xff\"",
                           "\"\\x\"",
                           "1e999",
                           "-1e999",
                           "{\"a\": {\"b\": 1, \"b\": 1}}",
                           "[{\"a\": 1, \"c\": [], \"a\": 1}]",
                           "{}{}",
                           "\"\\ud800\""}) {
    CHECK_MESSAGE(begins_with(parse_error(text), "x.json:1:"),
                  text << " gives " << parse_error(text));
  }
  // The same key in different objects is fine.
  CHECK(parse_error(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})") == "");
}

TEST_CASE("json nests 64 deep and no deeper") {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(parse_error(nested(64)) == "");
  CHECK(begins_with(parse_error(nested(65)), "x.json:1:65: nested deeper than 64"));
  CHECK(begins_with(parse_error(std::string(1000000, '[')), "x.json:1:65: nested deeper than 64"));
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += "{\"a\":";
  CHECK(parse_error(objects).find("nested deeper than 64") != std::string::npos);
}

TEST_CASE("json text cut anywhere or with a byte changed never gets past the reader unseen") {
  const std::string text = R"({"name": "cube", "m": [16, 1.5e-3, true], "n": {"x": null}})";
  for (size_t cut = 0; cut < text.size(); ++cut)
    CHECK(begins_with(parse_error(text.substr(0, cut)), "x.json:1:"));
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char c : {'\0', '"', '}', ']', ',', '9', '\xff'}) {
      std::string changed = text;
      changed[at] = c;
      const std::string result = parse_error(changed);
      CHECK((result == "" || begins_with(result, "x.json:1:")));
    }
  }
}

TEST_CASE("numbers are written in the shortest form that reads back") {
  using keel::format_double;
  using keel::format_float;
  CHECK(format_double(0.1) == "0.1");
  CHECK(format_double(1.0) == "1");
  CHECK(format_double(-2.5) == "-2.5");
  CHECK(format_double(1e22) == "1e+22");
  CHECK(format_double(1.0 / 3) == "0.3333333333333333");
  CHECK(format_double(5e-324) == "5e-324");
  CHECK(format_double(std::numeric_limits<double>::max()) == "1.7976931348623157e+308");
  CHECK(format_double(std::nan("")) == "null");
  CHECK(format_double(-std::numeric_limits<double>::infinity()) == "null");
  CHECK(format_float(0.1f) == "0.1");
  CHECK(format_float(16777216.0f) == "16777216");
  CHECK(format_float(std::numeric_limits<float>::infinity()) == "null");
  uint64_t bits = 88172645463325252u;
  for (int i = 0; i < 2000; ++i) {
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    const double value =
        std::ldexp(static_cast<double>(bits >> 11), static_cast<int>(bits % 600) - 300);
    CHECK(std::strtod(format_double(value).c_str(), nullptr) == value);
    CHECK(parse_json(format_double(value), "x").get<double>() == value);
  }
}

TEST_CASE("json is written sorted with nulls for what JSON lacks") {
  Json json;
  json["b"] = std::nan("");
  json["a"] = {1, 2.5, "x\"y", nullptr, true};
  CHECK(keel::write_json(json) == R"({"a":[1,2.5,"x\"y",null,true],"b":null})");
  CHECK(keel::write_json(parse_json("{\"a\":1}", "x"), 2) == "{\n  \"a\": 1\n}");
  CHECK(keel::quote_json("a\"b\n\\") == R"("a\"b\n\\")");
  CHECK(keel::quote_json("\xff") == "\"\xef\xbf\xbd\"");
}

TEST_CASE("a view names the place of what is wrong") {
  const Json json = parse_json(
      R"({"cube": {"m": "a", "n": 0, "list": [1, {"k": 2.5}], "big": 18446744073709551615}})",
      "p.json");
  const JsonView view(json, "p.json");
  CHECK(view.where() == "p.json");
  const JsonView cube = view["cube"];
  CHECK(error_of([&] { cube["m"].integer(1); }) ==
        "p.json: cube.m: expected an integer >= 1, got \"a\"");
  CHECK(error_of([&] { cube["n"].integer(1); }) ==
        "p.json: cube.n: expected an integer >= 1, got 0");
  CHECK(error_of([&] { cube["n"].integer(1, 8); }) ==
        "p.json: cube.n: expected an integer >= 1 and <= 8, got 0");
  CHECK(error_of([&] { cube["n"].number(0.5); }) ==
        "p.json: cube.n: expected a number >= 0.5, got 0");
  CHECK(error_of([&] { cube["n"].text(); }) == "p.json: cube.n: expected a string, got 0");
  CHECK(error_of([&] { cube["n"].boolean(); }) == "p.json: cube.n: expected true or false, got 0");
  CHECK(error_of([&] { cube["n"].keys(); }) == "p.json: cube.n: expected an object, got 0");
  CHECK(error_of([&] { cube.size(); }).find("p.json: cube: expected an array") == 0);
  CHECK(error_of([&] { cube["list"][1]["k"].integer(); }) ==
        "p.json: cube.list[1].k: expected an integer, got 2.5");
  CHECK(error_of([&] { cube["list"][2]; }) ==
        "p.json: cube.list: expected more than 2 elements, got 2");
  CHECK(error_of([&] { cube["big"].integer(); }) ==
        "p.json: cube.big: expected an integer, got 18446744073709551615");
  CHECK(error_of([&] { cube["lisst"]; }) ==
        "p.json: cube: 'lisst' is missing; the nearest key is 'list'");
  CHECK(error_of([&] { cube["zzzzzz"]; }) == "p.json: cube: 'zzzzzz' is missing");
  CHECK(error_of([&] {
          cube.require_only({"m", "n", "lists", "big"});
        }) == "p.json: cube: unknown key 'list'; did you mean 'lists'?");
  CHECK_NOTHROW(view.require_only({"cube", "other"}));
}

TEST_CASE("a view gives checked values") {
  const Json json =
      parse_json(R"({"i": 7, "d": 0.25, "b": true, "s": "hi", "l": [1, 2]})", "p.json");
  const JsonView view(json, "p.json");
  CHECK(view["i"].integer(7, 7) == 7);
  CHECK(view["i"].number() == 7.0);
  CHECK(view["d"].number(0, 1) == 0.25);
  CHECK(view["b"].boolean());
  CHECK(view["s"].text() == "hi");
  CHECK(view["l"].size() == 2);
  CHECK(view["l"][1].integer() == 2);
  CHECK_FALSE(view.find("none").has_value());
  CHECK(view.find("i")->integer() == 7);
  CHECK(view.keys() == std::vector<std::string>{"b", "d", "i", "l", "s"});
  CHECK(view["d"].error("a prime").info().expected == "a prime");
}

TEST_CASE("json documents that take too much memory are refused before they take it") {
  const std::string small = R"({"a":[1,2,{"b":"c"}]})";
  CHECK(keel::parse_json(small, "j", 4096) == keel::parse_json(small, "j"));
  const auto repeated = [](const std::string& part, size_t times) {
    std::string text;
    for (size_t i = 0; i < times; ++i) text += (i > 0 ? "," : "") + part;
    return text;
  };
  std::string members;
  for (int i = 0; i < 4000; ++i) members += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  for (const std::string& text :
       {"[" + repeated("[]", 20000) + "]", "[" + repeated("0", 30000) + "]", "{" + members + "}",
        "\"" + std::string(300000, 'x') + "\"", "[" + std::string(300000, ' ') + "]",
        "[1" + std::string(300000, '0') + "]", "[" + repeated("\"\"", 20000) + "]"}) {
    CAPTURE(text.substr(0, 20));
    CHECK_THROWS_AS(keel::parse_json(text, "j", 1 << 18), keel::JsonTooLarge);
  }
}

TEST_CASE("json views say where they are and which range they wanted") {
  const Json document = parse_json("[[7], {\"a\": 0.5}]", "x.json");
  const JsonView view(document, "x.json");
  CHECK(view[0][0].where() == "x.json: [0][0]");
  CHECK(view[1]["a"].where() == "x.json: [1].a");
  CHECK(error_of([&] { view.find("a"); }).find("expected an object") != std::string::npos);
  CHECK(error_of([&] { view[0][0].integer(INT64_MIN, 6); }).find("an integer <= 6, got 7") !=
        std::string::npos);
  CHECK(error_of([&] { view[0][0].integer(8); }).find("an integer >= 8, got 7") !=
        std::string::npos);
  CHECK(error_of([&] { view[0][0].integer(0, 6); }).find("an integer >= 0 and <= 6") !=
        std::string::npos);
  const double lowest = std::numeric_limits<double>::lowest();
  CHECK(error_of([&] { view[1]["a"].number(lowest, 0.25); }).find("a number <= 0.25, got 0.5") !=
        std::string::npos);
}

TEST_SUITE_END();
