// Losses as functions of a graph, with their gradients: beside central differences in double, and
// on every backend beside the references.
#ifndef KEEL_TESTS_UNIT_GRADIENTS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_GRADIENTS_FOR_TESTS_H

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

namespace keel::testing {

using Points = std::vector<Tensor>;
using Loss = std::function<Value(Graph&, const Values&)>;
using Rows = std::vector<Doubles>;

inline Tensor numbers(DType dtype, const Shape& shape, double first, double step) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, first + step * static_cast<double>(i));
  return t;
}
// Numbers between -1 and 1 without a pattern along any axis; `phase` tells the operands of one test
// apart.
inline Tensor waves(const Shape& shape, double phase, DType dtype = f64) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, std::sin(1.1 * static_cast<double>(i * i) + phase));
  }
  return t;
}
inline Tensor scalar64(double x) { return Tensor::full(f64, {}, x); }

// The loss and its gradients at a point, on one device.
class Differentiated {
 public:
  Differentiated(const Loss& loss, const Points& points, const std::string& backend) {
    for (const Tensor& p : points) {
      inputs_.push_back(graph_.input("x" + std::to_string(inputs_.size()), p.dtype(), p.shape()));
    }
    fetches_ = {loss(graph_, inputs_)};
    Values floats;
    for (const Value& v : inputs_) {
      if (is_float(v.dtype())) floats.push_back(v);
    }
    for (const Value& d : gradients(fetches_[0], floats)) fetches_.push_back(d);
    session_.emplace(graph_, device(backend));
  }
  double loss(const Points& points) { return run(1, points)[0][0]; }
  Rows run(const Points& points) { return run(fetches_.size(), points); }

 private:
  Rows run(size_t count, const Points& points) {
    Feeds feeds;
    for (size_t i = 0; i < points.size(); ++i) feeds.push_back({inputs_[i], points[i]});
    Rows rows;
    const Values some(fetches_.begin(), fetches_.begin() + static_cast<std::ptrdiff_t>(count));
    for (const Tensor& t : session_->run(some, feeds)) rows.push_back(elements(t));
    return rows;
  }
  Graph graph_;
  std::optional<Session> session_;
  Values inputs_, fetches_;
};

// Every element of every gradient against differences of the loss, in double.
inline void check_differences(const Loss& loss, const Points& points) {
  constexpr double kStep = 1e-6;
  for (const char* backend : {"ref", "cpu"}) {
    CAPTURE(backend);
    Differentiated d(loss, points, backend);
    const Rows got = d.run(points);
    size_t output = 1;
    for (size_t i = 0; i < points.size(); ++i) {
      if (!is_float(points[i].dtype())) continue;
      for (int64_t e = 0; e < points[i].num_elements(); ++e) {
        const auto moved = [&](double by) {
          Points copy = points;
          copy[i] = copy[i].clone();
          copy[i].set(e, copy[i].at(e) + by);
          return d.loss(copy);
        };
        const double expected = (moved(kStep) - moved(-kStep)) / (2 * kStep);
        CHECK(got[output][static_cast<size_t>(e)] == doctest::Approx(expected).epsilon(1e-6));
      }
      ++output;
    }
  }
}

inline void check_close(const Doubles& got, const Doubles& expected, double tolerance = 1e-13) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(got[i] - expected[i]) <= tolerance);
  }
}

inline void check_equal(const Rows& got, const Rows& expected, double epsilon) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i].size() == expected[i].size());
    for (size_t k = 0; k < got[i].size(); ++k) {
      CHECK(got[i][k] == doctest::Approx(expected[i][k]).epsilon(epsilon));
    }
  }
}

// f32 points on all backends, against ref.
inline void check_backends(const Loss& loss, const Points& points, double epsilon = 1e-4) {
  const Rows expected = Differentiated(loss, points, "ref").run(points);
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    check_equal(Differentiated(loss, points, name).run(points), expected, epsilon);
  }
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_GRADIENTS_FOR_TESTS_H
