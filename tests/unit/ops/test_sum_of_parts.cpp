// Sums over parts of a batch, and products whose rows are alone. The expected bits are those of the
// parts computed by themselves and added up by plain ops; expected values of single ops are worked
// out by hand.
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/product_kernels.h"
#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/conv.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/normalization.h"
#include "keel/ops/random.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/sum_of_parts.h"

#include "runtime_for_tests.h"
#include "support/built_in_backends.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::kBuiltInBackends;

Tensor shifted_sines(const Shape& shape, double seed) {
  Tensor t(f32, shape);
  const auto data = t.data<float>();
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1.37 + seed) * 3);
  return t;
}

// Values are inputs, so that nothing is folded.
std::vector<Tensor> run(const std::string& device_name, const std::vector<Tensor>& tensors,
                        const std::function<Values(const Values&)>& build) {
  Graph g;
  Values inputs;
  Feeds feeds;
  for (size_t i = 0; i < tensors.size(); ++i) {
    inputs.push_back(g.input("x" + std::to_string(i), tensors[i].dtype(), tensors[i].shape()));
    feeds.emplace_back(inputs.back(), tensors[i]);
  }
  const Values fetches = build(inputs);
  Session session(g, device(device_name));
  return session.run(fetches, feeds);
}

Value part_of(const Value& v, int64_t part, int64_t parts) {
  const int64_t rows = v.shape()[0] / parts;
  return slice(v, {part * rows}, {(part + 1) * rows});
}

Value tree(const Values& v, size_t begin, size_t end) {
  if (end - begin == 1) return v[begin];
  const size_t middle = begin + (end - begin) / 2;
  return tree(v, begin, middle) + tree(v, middle, end);
}

// Checks that an op over all parts gives the tree of what it gives of each.
void check_parts(const std::vector<Tensor>& tensors, int64_t parts,
                 const std::function<Value(const Values&, int64_t parts)>& op) {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const auto got = run(name, tensors, [&](const Values& v) {
      Values each;
      for (int64_t part = 0; part < parts; ++part) {
        Values inputs;
        for (const Value& whole : v) inputs.push_back(part_of(whole, part, parts));
        each.push_back(op(inputs, 1));
      }
      return Values{op(v, parts), tree(each, 0, each.size())};
    });
    CHECK(bit_equal(got[0], got[1]));
  }
}

// Checks that an op on all rows of its first operand gives the rows that it gives of each part.
void check_rows(const std::vector<Tensor>& tensors, int64_t parts,
                const std::function<Value(const Values&)>& op) {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const auto got = run(name, tensors, [&](const Values& v) {
      Values each;
      for (int64_t part = 0; part < parts; ++part) {
        Values inputs = v;
        inputs[0] = part_of(v[0], part, parts);
        each.push_back(op(inputs));
      }
      return Values{op(v), concat(each, 0)};
    });
    CHECK(bit_equal(got[0], got[1]));
  }
}

TEST_CASE("sum with parts adds the sums of parts as a tree") {
  const float big = 16777216;  // to which f32 cannot add 1
  const Tensor x = Tensor::of<float>({4, 1}, {1, 1, big, -big});
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const auto sum_of = [&](int64_t parts) {
      return run(name, {x},
                 [&](const Values& v) {
                   return Values{emit("sum", {Operand(v[0])},
                                      Attributes::of(ReduceAttributes{{0}, false, parts}),
                                      CallSite::here())};
                 })[0]
          .at(0);
    };
    CHECK(sum_of(2) == 2);
    CHECK(sum_of(4) == 2);
  }
  for (const Shape& shape : {Shape{100, 512}, Shape{4, 7, 3, 5}, Shape{40, 33000}, Shape{100}}) {
    for (const bool all : {false, true}) {
      CAPTURE(to_string(shape));
      CAPTURE(all);
      std::vector<int64_t> axes = {0};
      for (size_t i = 1; i < shape.rank(); ++i)
        if (all || i == 2) axes.push_back(static_cast<int64_t>(i));
      check_parts({shifted_sines(shape, 1)}, 4, [&](const Values& v, int64_t parts) {
        return emit("sum", {Operand(v[0])}, Attributes::of(ReduceAttributes{axes, false, parts}),
                    CallSite::here());
      });
    }
  }
}

TEST_CASE("sum refuses parts that it does not have") {
  Graph g;
  const Value x = g.input("x", f32, {6, 4});
  const Value h = g.input("h", f16, {6, 4});
  const auto refused = [&](const char* op, const Value& v, std::vector<int64_t> axes,
                           int64_t parts) {
    return error_of([&] {
      emit(op, {Operand(v)}, Attributes::of(ReduceAttributes{std::move(axes), false, parts}),
           CallSite::here());
    });
  };
  CHECK(contains(refused("sum", x, {0}, 4), "a multiple of 4 parts"));
  CHECK(contains(refused("sum", x, {1}, 2), "a sum along the first axis"));
  CHECK(contains(refused("max", x, {0}, 2), "sums alone have parts"));
  CHECK(contains(refused("sum", h, {0}, 2), "f32 or f64"));
  CHECK(contains(refused("sum", x, {0}, 0), "at least 1"));
}

TEST_CASE("matmul with parts adds the products of parts as a tree") {
  struct Sizes {
    int64_t m, n, k;
  };
  for (const Sizes s : {Sizes{784, 10, 100},
                        {64, 48, 100},
                        {3, 40, 20},
                        {17, 5, 12},
                        {130, 70, 8},
                        {20, 33, 8000},
                        {5, 3, 4},
                        {40, 600, 28}}) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    for (const int64_t parts : {2, 4}) {
      check_parts({shifted_sines({s.k, s.m}, 1), shifted_sines({s.k, s.n}, 2)}, parts,
                  [](const Values& v, int64_t of) {
                    return matmul(v[0], v[1],
                                  {.transpose_a = true, .rows_alone = true, .parts = of});
                  });
    }
  }
}

// Up to 16 parts of them are added up tile by tile; one or two columns and longer lists are not.
TEST_CASE("matmul with few columns or rows adds any number of parts as a tree") {
  struct Sizes {
    int64_t m, n, k;
  };
  for (const Sizes s :
       {Sizes{70, 10, 64}, {10, 70, 64}, {300, 3, 96}, {33, 16, 32}, {70, 2, 64}, {90, 5, 6400}}) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    for (const int64_t parts : {2, 8, 16, 32}) {
      CAPTURE(parts);
      check_parts({shifted_sines({s.k, s.m}, 1), shifted_sines({s.k, s.n}, 2)}, parts,
                  [](const Values& v, int64_t of) {
                    return matmul(v[0], v[1],
                                  {.transpose_a = true, .rows_alone = true, .parts = of});
                  });
    }
  }
}

// Registers hold the sum that the next part is added to.
TEST_CASE("matmul with many columns and rows adds any number of parts as a tree") {
  struct Sizes {
    int64_t m, n, k_of_part;
  };
  for (const Sizes s : {Sizes{64, 64, 32}, {130, 70, 5}, {28, 40, 1}, {47, 33, 7}}) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    for (const int64_t parts : {2, 3, 5, 6, 7, 8, 13}) {
      CAPTURE(parts);
      for (const DType dtype : {f32, bf16}) {
        CAPTURE(std::string(name_of(dtype)));
        const Shape a{parts * s.k_of_part, s.m}, b{parts * s.k_of_part, s.n};
        check_parts(
            {shifted_sines(a, 1), shifted_sines(b, 2)}, parts, [&](const Values& v, int64_t of) {
              const MatmulAttributes options{
                  .transpose_a = true, .wide = dtype == bf16, .rows_alone = true, .parts = of};
              return matmul(cast(v[0], dtype), cast(v[1], dtype), options);
            });
      }
    }
  }
}

TEST_CASE("matmul with rows_alone gives a row the same bits among any others") {
  struct Sizes {
    int64_t m, n, k;
  };
  for (const Sizes s : {Sizes{100, 10, 784},
                        {100, 512, 200},
                        {12, 40, 20},
                        {4, 5, 12},
                        {28, 130, 70},
                        {20, 33, 3000},
                        {200, 2, 3},
                        {8, 300, 1100}}) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    for (const bool transpose_b : {false, true}) {
      const Shape b = transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n};
      check_rows({shifted_sines({s.m, s.k}, 1), shifted_sines(b, 2)}, 4, [&](const Values& v) {
        return matmul(v[0], v[1], {.transpose_b = transpose_b, .rows_alone = true});
      });
    }
  }
}

// One class at a time is multiplied by each of the kernels that are not the set's own. If other
// rows or parts moved a product into another class, another kernel would multiply it and its bits
// would change.
TEST_CASE("bf16 products keep the bits of rows and parts whichever kernels their classes have") {
  const vector::HostIsa before = vector::host_isa();
  for (const vector::HostIsa isa : vector::available_host_isas()) {
    for (const vector::ProductKernel kernel : vector::product_kernels_of(isa)) {
      for (const vector::ShapeClass shape : vector::kAllShapeClasses) {
        vector::ProductKernels kernels = vector::own_product_kernels(isa);
        if (kernels.of(shape) == kernel) continue;
        kernels.of(shape) = kernel;
        const std::string name = name_of(isa, kernels);
        CAPTURE(name);
        vector::select_host_isa(name.c_str());
        for (const auto& size :
             {std::array<int64_t, 3>{256, 40, 33}, {128, 64, 64}, {36, 300, 70}, {8, 9, 200}}) {
          const auto [m, n, k] = size;
          CAPTURE(size[1]);
          check_rows({shifted_sines({m, k}, 1), shifted_sines({k, n}, 2)}, 4, [](const Values& v) {
            return matmul(cast(v[0], bf16), cast(v[1], bf16), {.wide = true, .rows_alone = true});
          });
          check_parts({shifted_sines({m, k}, 1), shifted_sines({m, n}, 2)}, 4,
                      [](const Values& v, int64_t of) {
                        const MatmulAttributes options{
                            .transpose_a = true, .wide = true, .rows_alone = true, .parts = of};
                        return matmul(cast(v[0], bf16), cast(v[1], bf16), options);
                      });
        }
      }
    }
  }
  vector::select_host_isa(vector::name_of(before));
}

TEST_CASE("convolutions give images the same bits among any others and weights sums of parts") {
  struct Sizes {
    int64_t batch, side, in, out, taps;
  };
  // With 16 channels those of stride 1 go by transformed tiles, and so do sums over enough of them.
  for (const Sizes s :
       {Sizes{8, 7, 1, 6, 5}, {4, 9, 16, 16, 3}, {8, 14, 16, 20, 3}, {12, 5, 3, 4, 3}}) {
    for (const std::string layout : {"NHWC", "NCHW"}) {
      for (const std::string padding : {"same", "valid"}) {
        CAPTURE(s.side);
        CAPTURE(layout);
        CAPTURE(padding);
        const bool last = layout == "NHWC";
        const auto images = [&](int64_t channels, int64_t side) {
          return last ? Shape{s.batch, side, side, channels} : Shape{s.batch, channels, side, side};
        };
        const Shape weights =
            last ? Shape{s.taps, s.taps, s.in, s.out} : Shape{s.out, s.in, s.taps, s.taps};
        Conv2dAttributes a{.padding = padding, .layout = layout, .rows_alone = true};
        check_rows({shifted_sines(images(s.in, s.side), 1), shifted_sines(weights, 2)}, 4,
                   [&](const Values& v) { return conv2d(v[0], v[1], a); });
        const int64_t out_side = padding == "same" ? s.side : s.side - s.taps + 1;
        const Tensor dy = shifted_sines(images(s.out, out_side), 3);
        check_rows({dy, shifted_sines(weights, 2)}, 4, [&](const Values& v) {
          return conv2d_input_gradient(v[0], v[1], a, {s.side, s.side});
        });
        check_parts({shifted_sines(images(s.in, s.side), 1), dy}, 4,
                    [&](const Values& v, int64_t parts) {
                      Conv2dGradientAttributes own;
                      static_cast<Conv2dAttributes&>(own) = a;
                      own.stride = own.dilation = {1, 1};
                      own.size = {s.taps, s.taps};
                      own.parts = parts;
                      return emit("conv2d_weight_gradient", {Operand(v[0]), Operand(v[1])},
                                  Attributes::of(own), CallSite::here());
                    });
      }
    }
  }
}

TEST_CASE("gradients for images with a stride have the same bits for each image among any others") {
  for (const int64_t kernel : {1, 3}) {
    CAPTURE(kernel);
    const Tensor dy = shifted_sines({4, 4, 4, 20}, 3),
                 weights = shifted_sines({kernel, kernel, 9, 20}, 2);
    check_rows({dy, weights}, 4, [&](const Values& v) {
      const Conv2dAttributes a{.stride = {2}, .padding = "same", .rows_alone = true};
      return conv2d_input_gradient(v[0], v[1], a, {7, 8});
    });
  }
}

// The expected sums are those of the means of both halves, and so on.
TEST_CASE("sum_of_parts sums what parts give") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const auto sums =
        run(name, {Tensor::of<float>({6}, {1, 2, 3, 10, 20, 30})}, [](const Values& v) {
          const Value part = slice(v[0], {0}, {3});
          const Value average = mean(part);
          return sum_of_parts({average, exp(average * 0.0f), sum(part * 2.0f)}, {{v[0], part}},
                              {.parts = 2});
        });
    CHECK(sums[0].item<float>() == 2 + 20);
    CHECK(sums[1].item<float>() == 1 + 1);
    CHECK(sums[2].item<float>() == 12 + 120);
  }
}

TEST_CASE("sum_of_parts takes all rows of a slice that begins from the end") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const auto sums =
        run(name, {Tensor::of<float>({6}, {1, 2, 3, 10, 20, 30})}, [](const Values& v) {
          const Value part = slice(v[0], {0}, {3});
          return sum_of_parts({sum(slice(part * 2.0f, {-3}, {3}))}, {{v[0], part}}, {.parts = 2});
        });
    CHECK(sums[0].item<float>() == 12 + 120);
  }
}

// A part has as many rows as a row has elements.
TEST_CASE("sum_of_parts scales norms by what a row is scaled by") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const auto got =
        run(name, {shifted_sines({8, 4}, 1), shifted_sines({4}, 2), shifted_sines({4}, 3)},
            [](const Values& v) {
              const Value two = v[0].graph().constant(Tensor::full(f32, {}, 2));
              const auto of = [&](const Value& rows) {
                const Value scale = broadcast_to(two, {4});
                return sum(layer_norm(rows, v[1], v[2]) * rows + rms_norm(rows, scale) * rows, {0});
              };
              const Value part = slice(v[0], {0}, {4});
              return Values{sum_of_parts({of(part)}, {{v[0], part}}, {.parts = 2})[0],
                            of(part) + of(slice(v[0], {4}, {8}))};
            });
    CHECK(bit_equal(got[0], got[1]));
  }
}

TEST_CASE("sum_of_parts draws the random numbers of all parts in their order") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const Tensor x = shifted_sines({8, 3}, 1), key = Tensor::scalar(int64_t{17});
    const auto drawn = run(name, {x, key}, [](const Values& v) {
      const auto total = [&](const Value& part, const std::vector<BatchPart>& batch,
                             const SumOfPartsOptions& options) {
        return sum_of_parts({sum(uniform_like(v[1], part, 0, 1, f32) * part, {0})}, batch,
                            options)[0];
      };
      const Value first = slice(v[0], {0}, {2}), half = slice(v[0], {0}, {4});
      const Value other = slice(v[0], {4}, {8}), third = slice(v[0], {4}, {6});
      return Values{total(first, {{v[0], first}}, {.parts = 4}),
                    total(first, {{half, first}}, {.parts = 2}) +
                        total(third, {{other, third}}, {.parts = 2, .first_part = 2}),
                    sum(uniform_like(v[1], v[0], 0, 1, f32) * v[0], {0})};
    });
    CHECK(bit_equal(drawn[0], drawn[1]));
    for (int64_t i = 0; i < 3; ++i)
      CHECK(drawn[0].at(i) == doctest::Approx(drawn[2].at(i)).epsilon(1e-5));
  }
}

// Each row of x has three columns of its own, so that the gradient by a factor of a column shows
// what was drawn for the element of that row.
Tensor rows_of_own_columns(int64_t rows) {
  Tensor x(f32, {rows, rows * 3});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 3 * i; k < 3 * i + 3; ++k)
      x.data<float>()[static_cast<size_t>(i * rows * 3 + k)] = 1;
  }
  return x;
}

Value drawn_like(const Value& v) { return uniform_like(random_key(v.graph()), v, 0.5, 1.5, f32); }

Values turns(const std::vector<Operand>& init, const BodyFunction& body,
             const WhileOptions& options) {
  const auto on = [](const Values& v) {
    return v[0].graph().constant(Tensor::full(boolean, {}, 1));
  };
  return while_loop(init, on, body, options);
}

TEST_CASE("sum_of_parts draws in bodies what the whole batch draws and its gradient likewise") {
  struct Kind {
    const char* name;
    std::function<Value(const Value& h, const Value& w)> of;
  };
  const BodyFunction scaled = [](const Values& v) { return Values{v[0] * drawn_like(v[0])}; };
  const auto in_branch = [&](const Value& h) {
    const Value one = sum(stop_gradient(h) * 0.0f) + 1.0f;
    return cond(greater(one, 0.5f), {h}, scaled, [](const Values& v) { return v; })[0];
  };
  const std::vector<Kind> kinds = {
      {"loop",
       [&](const Value& h, const Value&) { return turns({h}, scaled, {.trip_count = 3})[0]; }},
      {"loop of segments",
       [&](const Value& h, const Value&) {
         return turns({h}, scaled, {.trip_count = 5, .recompute_every = 2})[0];
       }},
      {"branch", [&](const Value& h, const Value&) { return in_branch(h); }},
      {"branch in a loop",
       [&](const Value& h, const Value&) {
         const BodyFunction body = [&](const Values& v) { return Values{in_branch(v[0])}; };
         return turns({h}, body, {.trip_count = 2})[0];
       }},
      // In the first turn z depends on no row.
      {"variable that gets rows",
       [&](const Value& h, const Value& w) {
         const BodyFunction body = [&](const Values& v) {
           return Values{v[0] * drawn_like(v[1]), add(v[1], v[0])};
         };
         return turns({h, broadcast_to(w * 0.0f, h.shape())}, body, {.trip_count = 3})[0];
       }},
      // No row is in the shape of what is drawn.
      {"numbers of weights", [&](const Value& h, const Value& w) {
         const BodyFunction body = [&](const Values& v) { return Values{v[0] * drawn_like(w)}; };
         return turns({h}, body, {.trip_count = 2})[0];
       }}};
  const Tensor x = rows_of_own_columns(8), w = Tensor::full(f32, {24}, 1);
  for (const Kind& kind : kinds) {
    for (const std::string& name : kBuiltInBackends) {
      CAPTURE(kind.name);
      CAPTURE(name);
      const auto got = [&](int64_t parts, int64_t first_part, int64_t begin, int64_t end) {
        return run(name, {x, w}, [&](const Values& v) {
          const Value batch = slice(v[0], {begin}, {end});
          const Value part = part_of(batch, 0, parts);
          const Value loss = sum(kind.of(part * v[1], v[1]));
          return sum_of_parts({loss, gradients(loss, {v[1]})[0]}, {{batch, part}},
                              {.parts = parts, .first_part = first_part});
        });
      };
      const auto whole = got(1, 0, 0, 8), in_parts = got(4, 0, 0, 8);
      const auto half = got(2, 0, 0, 4), other = got(2, 2, 4, 8);
      double total = 0;
      for (int64_t i = 0; i < 24; ++i) {
        CAPTURE(i);
        CHECK(in_parts[1].at(i) == doctest::Approx(whole[1].at(i)).epsilon(1e-6));
        const double halves = half[1].at(i) + other[1].at(i);
        CHECK(halves == in_parts[1].at(i));
        total += whole[1].at(i);
      }
      // The loss is linear in w, which is 1.
      CHECK(in_parts[0].at(0) == doctest::Approx(total).epsilon(1e-6));
      CHECK(half[0].at(0) + other[0].at(0) == doctest::Approx(total).epsilon(1e-6));
    }
  }
}

// The loss is the sum of x * w^3 of the second part, its gradient for w 3 x w^2 of each.
TEST_CASE("sum_of_parts of a gradient of a loop leaves the loop that is fetched beside it alone") {
  const Tensor x = Tensor::of<float>({4, 2}, {1, 2, 10, 20, 100, 200, 1000, 2000});
  const Tensor w = Tensor::of<float>({2}, {2, 1});
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    for (const bool fetches_loss : {false, true}) {
      CAPTURE(fetches_loss);
      const auto got = run(name, {x, w}, [&](const Values& v) {
        const Value part = slice(v[0], {1}, {2});
        const Value loss = sum(while_loop(
            {part}, [](const Values& u) { return less(u[0].graph().iteration(), 3); },
            [&](const Values& u) { return Values{u[0] * v[1]}; }, {.trip_count = 3})[0]);
        const Values total =
            sum_of_parts({gradients(loss, {v[1]})[0]}, {{v[0], part}}, {.parts = 4});
        return fetches_loss ? Values{total[0], loss} : total;
      });
      CHECK(got[0].at(0) == 3 * 1111 * 4);
      CHECK(got[0].at(1) == 3 * 2222 * 1);
      if (fetches_loss) CHECK(got[1].item<float>() == 10 * 8 + 20);
    }
  }
}

TEST_CASE("sum_of_parts refuses parts that are not as long as they have to be") {
  Graph g;
  const Value x = g.input("x", f32, {6, 2});
  const auto refused = [&](const Value& part, int64_t parts) {
    return error_of([&] { sum_of_parts({sum(part)}, {{x, part}}, {.parts = parts}); });
  };
  CHECK(contains(refused(slice(x, {0}, {3}), 3), "one of 3 parts of"));
  CHECK(contains(refused(x, 0), "at least 1"));
  CHECK(sum_of_parts({}, {}, {}).empty());
}

}  // namespace

TEST_SUITE_END();
