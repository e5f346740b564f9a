// Norms: plain double loops for their outputs, closed forms and differences for their gradients.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gradients_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

struct Normal {
  Doubles normal;
  double inverse = 0;
};
// (x - mean) / sqrt(var + epsilon) of the elements that `members` lists.
Normal normalised(const Tensor& x, const std::vector<int64_t>& members, double epsilon,
                  bool centre = true) {
  const auto n = static_cast<double>(members.size());
  double mean = 0, variance = 0;
  for (const int64_t i : members) mean += centre ? x.at(i) / n : 0;
  for (const int64_t i : members) variance += (x.at(i) - mean) * (x.at(i) - mean) / n;
  Normal result;
  result.inverse = 1 / std::sqrt(variance + epsilon);
  for (const int64_t i : members) result.normal.push_back((x.at(i) - mean) * result.inverse);
  return result;
}

TEST_CASE("layer_norm and its gradients are those of plain loops") {
  constexpr int64_t kRows = 3, kFeatures = 5;
  constexpr double kEpsilon = 1e-3;
  const Tensor x = waves({kRows, kFeatures}, 0), scale = waves({kFeatures}, 1),
               offset = waves({kFeatures}, 2), upstream = waves({kRows, kFeatures}, 3);
  Doubles y, dx, dscale(kFeatures), doffset(kFeatures);
  for (int64_t r = 0; r < kRows; ++r) {
    std::vector<int64_t> members;
    for (int64_t i = 0; i < kFeatures; ++i) members.push_back(r * kFeatures + i);
    const Normal row = normalised(x, members, kEpsilon);
    // By the whole Jacobian: d n_i / d x_j = inverse * (i == j) - (1 + n_i n_j) * inverse / n.
    for (int64_t j = 0; j < kFeatures; ++j) {
      double total = 0;
      for (int64_t i = 0; i < kFeatures; ++i) {
        const double pair =
            1 + row.normal[static_cast<size_t>(i)] * row.normal[static_cast<size_t>(j)];
        const double slope = row.inverse * ((i == j ? 1.0 : 0.0) - pair / kFeatures);
        total += upstream.at(r * kFeatures + i) * scale.at(i) * slope;
      }
      dx.push_back(total);
    }
    for (int64_t i = 0; i < kFeatures; ++i) {
      const auto at = static_cast<size_t>(i);
      y.push_back(row.normal[at] * scale.at(i) + offset.at(i));
      dscale[at] += upstream.at(r * kFeatures + i) * row.normal[at];
      doffset[at] += upstream.at(r * kFeatures + i);
    }
  }
  Graph g;
  const Value a = g.constant(x), b = g.constant(scale), c = g.constant(offset);
  const Value out = layer_norm(a, b, c, {.epsilon = kEpsilon});
  check_close(elements(out), y, 1e-13);
  const Values d = gradients(sum(out * g.constant(upstream)), {a, b, c});
  check_close(elements(d[0]), dx, 1e-12);
  check_close(elements(d[1]), dscale, 1e-12);
  check_close(elements(d[2]), doffset, 1e-12);
}

TEST_CASE("rms_norm is x over its root mean square") {
  Graph g;
  // Mean square 12.5 - and 0 with epsilon 0.25, whose root is 0.5.
  const Value x = g.constant(Tensor::of<double>({2, 2}, {3, 4, 0, 0}));
  const double root = std::sqrt(12.75);
  check_close(elements(rms_norm(x, {.epsilon = 0.25})), {3 / root, 4 / root, 0, 0}, 1e-15);
  const Value scale = g.constant(Tensor::of<double>({2}, {10, 100}));
  check_close(elements(rms_norm(x, scale, {.epsilon = 0.25})), {30 / root, 400 / root, 0, 0},
              1e-13);
  // d x_i / root / d x_j = (i == j) / root - x_i x_j / (2 root^3); of the second row 2.
  const Value d = gradients(sum(rms_norm(x, {.epsilon = 0.25})), {x})[0];
  const double cube = 2 * root * root * root;
  check_close(elements(d), {1 / root - 3 * 7 / cube, 1 / root - 4 * 7 / cube, 2, 2}, 1e-14);
}

TEST_CASE("norms of 16-bit floats are computed in f32") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    // Squares of 300 are beyond f16.
    const Value x = g.input("x", f16, {-1, 4});
    Session session(g, device(backend));
    const Tensor t = Tensor::of<float>({1, 4}, {300, -300, 300, -300}).cast(f16);
    check_close(elements(session.run(layer_norm(x), {{x, t}})), {1, -1, 1, -1}, 1e-3);
    check_close(elements(session.run(rms_norm(x), {{x, t}})), {1, -1, 1, -1}, 1e-3);
  }
}

TEST_CASE("a large mean costs a layer norm no digits on any backend") {
  // 34 of 100 elements are 1 above 1,000,000, where f32 has steps of 1/16: the mean is none of its
  // numbers.
  const double deviation = std::sqrt(0.34 * 0.66);
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    Tensor t(f32, {8, 100});
    const auto above = [](int64_t i) { return i % 100 % 3 == 0; };
    for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, 1e6 + (above(i) ? 1 : 0));
    const Value x = g.input("x", f32, {-1, 100});
    Session session(g, device(backend));
    const Doubles got = elements(session.run(layer_norm(x, {.epsilon = 0}), {{x, t}}));
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const double expected = ((above(i) ? 1 : 0) - 0.34) / deviation;
      CHECK(got[static_cast<size_t>(i)] == doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

// The mean of so many elements, summed in f32, is off by more than they are apart.
TEST_CASE("a large mean costs a batch norm of many rows few digits on any backend") {
  constexpr int64_t kRows = 20000, kChannels = 3;
  constexpr double kStep = 1.0 / 16;  // of f32 there
  const auto above = [](int64_t row) { return row % 3 == 0; };
  const double share = 6667.0 / kRows, deviation = kStep * std::sqrt(share * (1 - share));
  Tensor t(f32, {kRows, kChannels});
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, 1e6 + (above(i / kChannels) ? kStep : 0));
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {kRows, kChannels});
    const Value one = g.constant(Tensor::full(f32, {kChannels}, 1));
    const Value none = g.constant(Tensor::full(f32, {kChannels}, 0));
    const BatchNormOutput norm = batch_norm(x, one, none, {.epsilon = 0});
    Session session(g, device(backend));
    const auto got = session.run({norm.output, norm.variance}, {{x, t}});
    for (int64_t c = 0; c < kChannels; ++c)
      CHECK(got[1].at(c) == doctest::Approx(deviation * deviation).epsilon(1e-4));
    int64_t wrong = 0;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const double expected = ((above(i / kChannels) ? kStep : 0) - share * kStep) / deviation;
      wrong += std::fabs(got[0].at(i) - expected) <= 1e-3 ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

// The elements of channel (or of batch element and group) that are normalised together.
std::vector<int64_t> members_of(const Shape& shape, size_t axis, int64_t first, int64_t last,
                                int64_t batch) {
  std::vector<int64_t> members;
  const Shape strides_of = shape;
  const auto strides = strides_of.strides();
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const int64_t channel = i / strides[axis] % shape[axis];
    const bool in_batch = batch < 0 || i / strides[0] == batch;
    if (channel >= first && channel < last && in_batch) members.push_back(i);
  }
  return members;
}

TEST_CASE("batch_norm over either channel axis is that of plain loops") {
  const Shape shape{2, 3, 4, 2};
  for (const int64_t axis : {1, 3}) {
    CAPTURE(axis);
    const auto at = static_cast<size_t>(axis);
    const int64_t channels = shape[at];
    const Tensor x = waves(shape, 0), scale = waves({channels}, 1), offset = waves({channels}, 2);
    Doubles y(static_cast<size_t>(x.num_elements())), means, variances;
    for (int64_t c = 0; c < channels; ++c) {
      const auto members = members_of(shape, at, c, c + 1, -1);
      const Normal normal = normalised(x, members, 1e-5);
      double mean = 0;
      for (size_t i = 0; i < members.size(); ++i) {
        y[static_cast<size_t>(members[i])] = normal.normal[i] * scale.at(c) + offset.at(c);
        mean += x.at(members[i]) / static_cast<double>(members.size());
      }
      means.push_back(mean);
      variances.push_back(1 / (normal.inverse * normal.inverse) - 1e-5);
    }
    Graph g;
    const Value a = g.constant(x), b = g.constant(scale), c = g.constant(offset);
    const BatchNormOutput norm = batch_norm(a, b, c, {.channel_axis = axis});
    check_close(elements(norm.output), y, 1e-13);
    check_close(elements(norm.mean), means, 1e-14);
    check_close(elements(norm.variance), variances, 1e-14);
    // The statistics of the batch, given to the other form, say the same.
    const Value same =
        batch_norm_inference(a, b, c, g.constant(evaluate(norm.mean)),
                             g.constant(evaluate(norm.variance)), {.channel_axis = axis});
    check_close(elements(same), y, 1e-13);
  }
}

TEST_CASE("group_norm over either channel axis is that of plain loops") {
  for (const int64_t axis : {1, -1}) {
    CAPTURE(axis);
    const Shape shape = axis == 1 ? Shape{2, 4, 3} : Shape{2, 3, 4};
    const auto at = static_cast<size_t>(axis == 1 ? 1 : 2);
    const Tensor x = waves(shape, 0), scale = waves({4}, 1), offset = waves({4}, 2);
    Doubles y(static_cast<size_t>(x.num_elements()));
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t group = 0; group < 2; ++group) {
        const auto members = members_of(shape, at, 2 * group, 2 * group + 2, n);
        const Normal normal = normalised(x, members, 1e-5);
        for (size_t i = 0; i < members.size(); ++i) {
          const int64_t c = members[i] / shape.strides()[at] % 4;
          y[static_cast<size_t>(members[i])] = normal.normal[i] * scale.at(c) + offset.at(c);
        }
      }
    }
    Graph g;
    const Value a = g.input("x", f64, shape.with_dim(0, -1));
    const Value out =
        group_norm(a, 2, g.constant(scale), g.constant(offset), {.channel_axis = axis});
    check_close(elements(out, {{a, x}}), y, 1e-13);
  }
}

TEST_CASE("gradients of norms agree with differences and backends with ref") {
  const Loss losses[] = {
      [](Graph&, const Values& x) { return sum(square(layer_norm(x[0], x[1], x[2]) + x[0])); },
      [](Graph&, const Values& x) { return sum(square(rms_norm(x[0], x[1]) + x[0])); },
      [](Graph&, const Values& x) {
        const BatchNormOutput norm = batch_norm(x[0], x[1], x[2]);
        return sum(square(norm.output + x[0])) + sum(norm.mean) + sum(square(norm.variance));
      },
      [](Graph&, const Values& x) { return sum(square(group_norm(x[0], 2, x[1], x[2]) + x[0])); },
      [](Graph&, const Values& x) {
        return sum(square(batch_norm_inference(x[0], x[1], x[2], x[1] * 0.5, square(x[2]))));
      }};
  for (const Loss& loss : losses) {
    check_differences(loss, {waves({3, 2, 4}, 0), waves({4}, 1), waves({4}, 2)});
    check_backends(loss, {waves({3, 2, 4}, 0, f32), waves({4}, 1, f32), waves({4}, 2, f32)});
  }
}

TEST_CASE("batch norm with kept statistics loses no digits to a large mean") {
  Graph g;
  const Value x = g.constant(Tensor::of<float>({2, 1}, {1e6f + 2, 1e6f - 1}));
  const auto of = [&](float number) { return g.constant(Tensor::full(f32, {1}, number)); };
  const Value y = batch_norm_inference(x, of(1), of(0.25f), of(1e6f), of(1), {.epsilon = 0});
  CHECK(elements(y) == Doubles{2.25, -0.75});
}

TEST_CASE("norms at their corners") {
  Graph g;
  const Value x = g.constant(Tensor(f32, {2, 3}));
  CHECK(elements(layer_norm(x)) == Doubles(6, 0));
  CHECK(elements(layer_norm(g.constant(Tensor(f32, {2, 0})))).empty());
  CHECK(elements(layer_norm(g.constant(Tensor(f32, {0, 2})))).empty());
  CHECK(elements(rms_norm(g.constant(Tensor(f32, {0, 2})))).empty());
  const Value three = g.constant(Tensor::full(f32, {3}, 1)), two = g.constant(Tensor(f32, {2}));
  const BatchNormOutput empty = batch_norm(g.constant(Tensor(f32, {0, 3})), three, three);
  CHECK(elements(empty.output).empty());
  CHECK(std::isnan(elements(empty.mean)[0]));
  const auto message = [](auto&& f) { return error_of(f); };
  CHECK(contains(message([&] { layer_norm(x, two, three); }), "scale"));
  CHECK(contains(message([&] { layer_norm(x, three, two); }), "[3]"));
  CHECK(contains(message([&] { layer_norm(x, {.epsilon = -1}); }), "epsilon"));
  CHECK(contains(message([&] { rms_norm(g.constant(counting({2}, i32))); }), "cast"));
  CHECK(contains(message([&] { rms_norm(g.constant(counting({}))); }), "rank"));
  CHECK(contains(message([&] { batch_norm(x, two, three); }), "number for each channel"));
  CHECK(contains(message([&] { batch_norm(three, three, three); }), "batch"));
  CHECK(
      contains(message([&] { batch_norm(x, three, three, {.channel_axis = 0}); }), "channel_axis"));
  CHECK(contains(message([&] { group_norm(x, 2, three, three); }), "divisor"));
  CHECK(contains(message([&] { group_norm(x, 2, three, three); }), __FILE__));
  const Value half = g.constant(Tensor(f16, {2, 3}));
  const Value scale = g.constant(Tensor(f16, {3}));
  CHECK(batch_norm(half, scale, scale).mean.dtype() == f32);
  CHECK(contains(message([&] { batch_norm_inference(half, scale, scale, scale, scale); }),
                 "keel::f32"));
}

}  // namespace

TEST_SUITE_END();
