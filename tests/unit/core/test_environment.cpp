// Parsers of flags and environment variables, and the search for what was meant.
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/environment.h"

namespace {

using keel::Error;
using keel::ErrorKind;

template <class F>
std::string invalid_argument_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.info().kind == ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("integers are decimal whole and in range") {
  using keel::parse_integer;
  CHECK(parse_integer("0", "x") == 0);
  CHECK(parse_integer("-12", "x") == -12);
  CHECK(parse_integer("+12", "x") == 12);
  CHECK(parse_integer("007", "x") == 7);
  CHECK(parse_integer("9223372036854775807", "x") == INT64_MAX);
  CHECK(parse_integer("-9223372036854775808", "x") == INT64_MIN);
  for (const char* text : {"", " ", "ten", "1 ", " 1", "1.0", "1e3", "0x10", "--1", "+-1", "+", "-",
                           "9223372036854775808", "1,000"}) {
    CHECK(invalid_argument_of([&] { parse_integer(text, "--n"); }) ==
          "--n: expected an integer, got '" + std::string(text) + "'");
  }
  CHECK(invalid_argument_of([&] { parse_integer("1\n", "--n"); }) ==
        "--n: expected an integer, got '1\\n'");
  CHECK(invalid_argument_of([] { parse_integer("0", "--batch", 1); }) ==
        "--batch: expected an integer >= 1, got '0'");
  CHECK(invalid_argument_of([] { parse_integer("9", "--batch", 1, 8); }) ==
        "--batch: expected an integer from 1 to 8, got '9'");
  CHECK(invalid_argument_of([] { parse_integer("9", "--batch", INT64_MIN, 8); }) ==
        "--batch: expected an integer <= 8, got '9'");
  CHECK(parse_integer("8", "--batch", 8, 8) == 8);
}

TEST_CASE("numbers are finite and in range") {
  using keel::parse_number;
  CHECK(parse_number("0.5", "x") == 0.5);
  CHECK(parse_number("1e-3", "x") == 0.001);
  CHECK(parse_number("-2", "x") == -2.0);
  CHECK(parse_number("+.5", "x") == 0.5);
  for (const char* text : {"", "a", "1e", "nan", "inf", "-inf", "1e999", "0.5 ", "0,5", "0x1p3"}) {
    CHECK(invalid_argument_of([&] { parse_number(text, "--lr"); }) ==
          "--lr: expected a number, got '" + std::string(text) + "'");
  }
  CHECK(invalid_argument_of([] { parse_number("2", "--p", 0, 1); }) ==
        "--p: expected a number from 0 to 1, got '2'");
  CHECK(invalid_argument_of([] { parse_number("-1", "--p", 0.25); }) ==
        "--p: expected a number >= 0.25, got '-1'");
}

TEST_CASE("choices suggest what was meant") {
  const std::vector<std::string> choices = {"softmax", "mlp"};
  CHECK(keel::parse_choice("mlp", "--model", choices) == "mlp");
  CHECK(invalid_argument_of([&] { keel::parse_choice("sofmax", "--model", choices); }) ==
        "--model: expected one of softmax, mlp, got 'sofmax'; did you mean 'softmax'?");
  CHECK(invalid_argument_of([&] { keel::parse_choice("", "--model", choices); }) ==
        "--model: expected one of softmax, mlp, got ''");
}

TEST_CASE("environment variables are typed and may be missing") {
  const char* name = "KEEL_TEST_ENVIRONMENT";
  unsetenv(name);
  CHECK_FALSE(keel::environment_text(name).has_value());
  CHECK_FALSE(keel::environment_integer(name).has_value());
  setenv(name, "", 1);
  CHECK_FALSE(keel::environment_integer(name).has_value());
  setenv(name, "12", 1);
  CHECK(keel::environment_text(name) == "12");
  CHECK(keel::environment_integer(name, 1, 12) == 12);
  CHECK(invalid_argument_of([&] { keel::environment_integer(name, 13); }) ==
        "KEEL_TEST_ENVIRONMENT: expected an integer >= 13, got '12'");
  CHECK(invalid_argument_of([&] {
          keel::environment_choice(name, {"11", "13"});
        }).find("did you mean '11'?") != std::string::npos);
  unsetenv(name);
}

TEST_CASE("the nearest name has the fewest edits") {
  const std::vector<std::string> names = {"batch", "epochs", "steps", "loop-size", "lr"};
  CHECK(keel::nearest("bach", names) == "batch");
  CHECK(keel::nearest("batchs", names) == "batch");
  CHECK(keel::nearest("epoch", names) == "epochs");
  CHECK(keel::nearest("loopsize", names) == "loop-size");
  CHECK(keel::nearest("lt", names) == "lr");
  CHECK(keel::nearest("xyzzy", names).empty());
  CHECK(keel::nearest("", names).empty());
  CHECK(keel::nearest("batch", {}).empty());
  CHECK(keel::nearest(std::string(100000, 'a'), names).empty());
  CHECK(keel::did_you_mean("stesp", names) == "did you mean 'steps'?");
  CHECK(keel::did_you_mean("qqqqqq", names).empty());
}

TEST_SUITE_END();
