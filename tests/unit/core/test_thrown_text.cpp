#include <new>
#include <stdexcept>

#include <doctest/doctest.h>

#include "keel/core/base/thrown_text.h"

TEST_SUITE_BEGIN("base");

TEST_CASE("thrown text: what is handled says it and all else says what was given") {
  CHECK(keel::text_of_thrown("nothing") == "nothing");
  const auto text_of = [](const auto& thrown) {
    try {
      throw thrown;
    } catch (...) {
      return keel::text_of_thrown("something else");
    }
  };
  CHECK(text_of(std::runtime_error("the disk is full")) == "the disk is full");
  CHECK(text_of(7) == "something else");
  // Its text is not copied, which would take memory.
  CHECK(text_of(std::bad_alloc()) == "something else");
}

TEST_SUITE_END();
