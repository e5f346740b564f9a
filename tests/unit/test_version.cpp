// The newest entry of CHANGELOG.md is the version being built.
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "keel/version.h"

TEST_SUITE_BEGIN("unit");

TEST_CASE("the changelog begins with the version of the build") {
  std::ifstream in(std::string(KEEL_SOURCE_DIR) + "/CHANGELOG.md");
  std::string line;
  while (std::getline(in, line) && line.compare(0, 4, "## [") != 0) {
  }
  CHECK(line.compare(0, 4, "## [") == 0);
  CHECK(line.substr(4, line.find(']') - 4) == KEEL_VERSION);
}

TEST_SUITE_END();
