// Equality and hashes of attributes, for members of every type that attributes may have.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/ir/attributes.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Attributes;
using keel::Shape;
using keel::Tensor;
using keel::Type;

struct EveryKind {
  bool flag = false;
  int64_t count = 3;
  double rate = 0.5;
  std::string name = "a name that is longer than a small string";
  keel::DType dtype = keel::f32;
  Shape shape{2, 3};
  std::vector<int64_t> axes{0, 1};
  std::vector<double> rates{0.25, 0.5};
  std::vector<std::string> names{"x", "y"};
  std::vector<Type> types{{keel::f32, Shape{4}}};
  Tensor value = Tensor::full(keel::f32, {2}, 1);
  static void fields(auto&& visit) {
    visit("flag", &EveryKind::flag);
    visit("count", &EveryKind::count);
    visit("rate", &EveryKind::rate);
    visit("name", &EveryKind::name);
    visit("dtype", &EveryKind::dtype);
    visit("shape", &EveryKind::shape);
    visit("axes", &EveryKind::axes);
    visit("rates", &EveryKind::rates);
    visit("names", &EveryKind::names);
    visit("types", &EveryKind::types);
    visit("value", &EveryKind::value);
  }
};

Attributes changed(const std::function<void(EveryKind&)>& change) {
  EveryKind attributes;
  attributes.value = Tensor::full(keel::f32, {2}, 1);  // memory of its own
  change(attributes);
  return Attributes::of(attributes);
}

}  // namespace

TEST_CASE("attributes: equal members make equal attributes with equal hashes") {
  const Attributes one = changed([](EveryKind&) {}), other = changed([](EveryKind&) {});
  CHECK(one == other);
  CHECK(one.hash() == other.hash());
  CHECK(Attributes() == Attributes());
  CHECK(Attributes().hash() == Attributes().hash());
  CHECK_FALSE(one == Attributes());
  CHECK_FALSE(Attributes() == one);
}

TEST_CASE("attributes: a member of any type that differs makes others of another hash") {
  const std::vector<std::function<void(EveryKind&)>> changes = {
      [](EveryKind& a) { a.flag = true; },
      [](EveryKind& a) { a.count = 4; },
      [](EveryKind& a) { a.rate = 0.25; },
      [](EveryKind& a) { a.name.back() = 'G'; },
      [](EveryKind& a) { a.dtype = keel::bf16; },
      [](EveryKind& a) {
        a.shape = Shape{3, 2};
      },
      [](EveryKind& a) { a.axes.pop_back(); },
      [](EveryKind& a) { a.rates[1] = 0.75; },
      [](EveryKind& a) { a.names[1] = "z"; },
      [](EveryKind& a) { a.types[0].dtype = keel::i32; },
      [](EveryKind& a) { a.value = Tensor::full(keel::f32, {2}, 2); },
      [](EveryKind& a) {
        a.value = Tensor::full(keel::f32, {1, 2}, 1);
      }};
  const Attributes plain = changed([](EveryKind&) {});
  for (size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    const Attributes other = changed(changes[i]);
    CHECK_FALSE(plain == other);
    CHECK_FALSE(other == plain);
    CHECK(plain.hash() != other.hash());
    CHECK(other == changed(changes[i]));
    CHECK(other.hash() == changed(changes[i]).hash());
  }
}

TEST_CASE("attributes: numbers are compared by their bits") {
  const auto with_rate = [](double rate) {
    return changed([rate](EveryKind& a) { a.rate = rate; });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(with_rate(nan) == with_rate(nan));
  CHECK(with_rate(nan).hash() == with_rate(nan).hash());
  CHECK_FALSE(with_rate(0.0) == with_rate(-0.0));
}

TEST_SUITE_END();
