// A JSON number below what a double holds became 0 in silence, where one above it was refused.
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/core/base/json.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("core");

TEST_CASE("a JSON number that is not 0 is not read as 0") {
  using keel_test::contains;
  using keel_test::error_of;
  const auto read = [](const std::string& number, const std::string& behind) {
    return keel::parse_json("{\n \"lr\": " + number + behind, "run.json").at("lr").get<double>();
  };
  const std::string zeros(400, '0');
  for (const char* behind : {"}", " }", "\n}"}) {
    for (const std::string& number :
         {std::string("1e-400"), std::string("-1E-400"), std::string("0.5e-99999"),
          "0." + zeros + "1", std::string("2e-324")}) {
      CAPTURE(number);
      const std::string error = error_of([&] { read(number, behind); });
      // The place is that of the number's last character, as for numbers that are too large.
      const std::string place = "run.json:2:" + std::to_string(7 + number.size()) + ": ";
      CHECK(contains(error, place + "number underflow parsing '" + number.substr(0, 40)));
    }
    for (const char* number : {"0", "-0", "0.0", "0e-400", "-0.000E5", "0.00e+7"})
      CHECK(read(number, behind) == 0);
    // The smallest that there is, and what rounds to it.
    const double least = std::numeric_limits<double>::denorm_min();
    CHECK(read("4.94e-324", behind) == least);
    CHECK(read("3e-324", behind) == least);
    CHECK(read("0." + zeros + "1e401", behind) == 1);
    CHECK(contains(error_of([&] { read("1e400", behind); }), "run.json:2:12: number overflow"));
  }
  CHECK(contains(error_of([] { keel::parse_json("1e-400", "run.json"); }), "run.json:1:6: "));
  CHECK(contains(error_of([] { keel::parse_json("[1,1e-400]", "run.json"); }), "run.json:1:9: "));
}

TEST_SUITE_END();
