// .npy files of format 3.0 were refused though their header is plain, and a key that stands there
// twice was called unexpected.
#include <string>

#include <doctest/doctest.h>

#include "keel/core/tensor/npy.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("core");

namespace {

using keel_test::contains;
using keel_test::error_of;

// Two 32-bit integers, 1 and 2, behind this dictionary.
std::string file(const std::string& dictionary, char version) {
  const auto length = static_cast<char>(dictionary.size());
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  text += length;
  text += std::string(version == 1 ? 1 : 3, '\0');
  return text + dictionary + std::string("\1\0\0\0\2\0\0\0", 8);
}

std::string members(const std::string& more) {
  return "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), " + more + "}\n";
}

}  // namespace

TEST_CASE("npy files of format 3 with a plain header are read") {
  for (const char version : {'\1', '\2', '\3'}) {
    const keel::Tensor read = keel::parse_npy(file(members(""), version), "x.npy");
    REQUIRE(read.shape() == keel::Shape{2});
    CHECK(read.at(0) == 1);
    CHECK(read.at(1) == 2);
  }
  CHECK(contains(error_of([] { keel::parse_npy(file(members(""), '\4'), "x.npy"); }), "got 4.0"));
  // Letters beyond ASCII, which format 3.0 adds, can only be in the name of another field.
  CHECK(contains(error_of([] { keel::parse_npy(file(members("'\xc3\xa9': 1"), 3), "x.npy"); }),
                 "unexpected key"));
}

TEST_CASE("a key that stands twice in an npy header is called so") {
  for (const std::string member : {"'descr': '<i4'", "'fortran_order': False", "'shape': (2,)"}) {
    const std::string key = member.substr(0, member.find(':'));
    CHECK(contains(error_of([&] { keel::parse_npy(file(members(member), 1), "x.npy"); }),
                   "the key " + key + " stands here twice"));
  }
}

TEST_SUITE_END();
