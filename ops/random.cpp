#include "keel/ops/random.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "keel/core/base/printable.h"
#include "keel/core/base/random.h"
#include "keel/core/tensor/convert.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/random_range.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/elementwise.h"

namespace keel {
namespace {

void require_key(const InferContext& c, size_t input) {
  c.require(input, c.inputs[input] == Type{i64, {}}, "an i64 scalar");
}

uint64_t bits_of(const Tensor& key) { return static_cast<uint64_t>(key.item<int64_t>()); }

// ---- fold_key

std::vector<Type> infer_fold_key(const InferContext& c) {
  require_key(c, 0);
  require_key(c, 1);
  return {{i64, {}}};
}

void reference_fold_key(const ReferenceContext& c) {
  const uint64_t folded = fold_key(bits_of(c.inputs[0]), bits_of(c.inputs[1]));
  c.outputs[0].data<int64_t>()[0] = static_cast<int64_t>(folded);
}

Tensor draw_key(SampleSource& source) {
  return Tensor::scalar(static_cast<int64_t>(source.bits()));
}

int64_t draw_first(SampleSource& source) { return source.coin() ? 0 : source.integer(1, 10000); }

Sample sample_fold_key(SampleSource& source) {
  if (source.dtype() != i64) return {};
  return {{draw_key(source), draw_key(source)},
          [](Graph&, const Values& in) { return Values{fold_key(in[0], in[1])}; }};
}

// ---- elements

template <class T>
T converted(double value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return convert_element<T>(value);
}

// Draws pieces of the sequence and stores move(draw) for each element.
template <class T, class Fill, class Move>
void fill_elements(T* out, size_t count, uint64_t key, uint64_t first, Fill&& fill, Move&& move) {
  using Draw = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::array<Draw, 512> draws{};
  for (size_t done = 0; done < count; done += draws.size()) {
    const size_t piece = std::min(draws.size(), count - done);
    fill(draws.data(), piece, key, first + done);
    for (size_t i = 0; i < piece; ++i)
      out[done + i] = converted<T>(move(static_cast<double>(draws[i])));
  }
}

// ---- the three distributions

struct Distribution {
  const char* name;
  const char* like_name;
  const char* summary;
  void (*check)(const InferContext& c, DType dtype, double a, double b);
  void (*fill)(Tensor& out, uint64_t key, uint64_t first, double a, double b);
  // a and b of a sample.
  std::array<double, 2> (*draw)(SampleSource& source);
};

void require_float(const InferContext& c, DType dtype) {
  if (!is_float(dtype)) c.fail("dtype", "a float dtype", name_of(dtype));
}

void require_first(const InferContext& c, int64_t first) {
  if (first < 0) c.fail("first", "an element's number, 0 or more", std::to_string(first));
}

// Says whether that is a finite element of the float dtype.
bool holds(DType dtype, double number) {
  bool held = true;
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float(dtype_of<T>))
      held = std::isfinite(convert_element<double>(convert_element<T>(number)));
  });
  return held;
}

void require_held(const InferContext& c, const char* argument, DType dtype, double number) {
  if (!holds(dtype, number))
    c.fail(argument, std::string("a number that fits ") + name_of(dtype), printable(number));
}

void check_uniform(const InferContext& c, DType dtype, double a, double b) {
  require_float(c, dtype);
  require_random_range(c.op.name, "uniform", a, b);
  require_held(c, "low", dtype, a);
  require_held(c, "high", dtype, b);
}

void check_normal(const InferContext& c, DType dtype, double a, double b) {
  require_float(c, dtype);
  require_random_range(c.op.name, "normal", a, b);
  require_held(c, "mean", dtype, a);
  require_held(c, "deviation", dtype, b);
}

void check_bernoulli(const InferContext& c, DType dtype, double a, double) {
  if (dtype != boolean) c.fail("dtype", "bool", name_of(dtype));
  if (!(a >= 0 && a <= 1)) c.fail("probability", "a number in [0, 1]", printable(a));
}

const Distribution kUniform{"uniform",
                            "uniform_like",
                            "random numbers from [a, b)",
                            check_uniform,
                            [](Tensor& out, uint64_t key, uint64_t first, double a, double b) {
                              fill_uniform_elements(out.dtype(), out.raw(),
                                                    static_cast<size_t>(out.num_elements()), key,
                                                    first, a, b);
                            },
                            [](SampleSource& source) {
                              return std::array<double, 2>{source.real(-3, 0), source.real(0, 3)};
                            }};

const Distribution kNormal{"normal",
                           "normal_like",
                           "random numbers of mean a and deviation b",
                           check_normal,
                           [](Tensor& out, uint64_t key, uint64_t first, double a, double b) {
                             fill_normal_elements(out.dtype(), out.raw(),
                                                  static_cast<size_t>(out.num_elements()), key,
                                                  first, a, b);
                           },
                           [](SampleSource& source) {
                             return std::array<double, 2>{source.real(-3, 3), source.real(0, 3)};
                           }};

const Distribution kBernoulli{"bernoulli",
                              "bernoulli_like",
                              "true with probability a",
                              check_bernoulli,
                              [](Tensor& out, uint64_t key, uint64_t first, double a, double) {
                                const auto data = out.data<bool>();
                                fill_bernoulli(data.data(), data.size(), a, key, first);
                              },
                              [](SampleSource& source) {
                                return std::array<double, 2>{source.real(0, 1), 1.0};
                              }};

bool gives(const Distribution& d, DType dtype) {
  return &d == &kBernoulli ? dtype == boolean : is_float(dtype);
}

OpDef random_op(const Distribution& d) {
  OpDef op;
  op.name = d.name;
  op.summary = d.summary;
  op.input_names = {"key"};
  op.attributes = &attributes_schema<RandomAttributes>();
  op.infer = [&d](const InferContext& c) {
    require_key(c, 0);
    const auto& a = c.as<RandomAttributes>();
    d.check(c, a.dtype, a.a, a.b);
    require_first(c, a.first);
    if (!a.shape.known()) {
      c.fail("shape", "all dimensions known", to_string(a.shape),
             std::string("use ") + d.like_name +
                 "(keel::random_key(graph), x, ...) of an x of that shape");
    }
    static_cast<void>(a.shape.num_bytes(a.dtype));
    return std::vector<Type>{{a.dtype, a.shape}};
  };
  op.reference = [&d](const ReferenceContext& c) {
    const auto& a = c.as<RandomAttributes>();
    d.fill(c.outputs[0], bits_of(c.inputs[0]), static_cast<uint64_t>(a.first), a.a, a.b);
  };
  op.gradient = [](const BuildContext&) { return Values{Value()}; };
  op.traits = kRandom;
  op.sample = [&d](SampleSource& source) {
    if (!gives(d, source.dtype())) return Sample{};
    const auto [a, b] = d.draw(source);
    const RandomAttributes attributes{source.dtype(), source.shape(0, 3), a, b, draw_first(source)};
    return Sample{
        {draw_key(source)}, [&d, attributes](Graph&, const Values& in) {
          return Values{emit(d.name, {in[0]}, Attributes::of(attributes), in[0].node().site())};
        }};
  };
  return op;
}

OpDef random_like_op(const Distribution& d) {
  OpDef op;
  op.name = d.like_name;
  op.summary = std::string(d.summary) + ", in the shape of another value";
  op.input_names = {"key", "like"};
  op.attributes = &attributes_schema<RandomLikeAttributes>();
  op.infer = [&d](const InferContext& c) {
    require_key(c, 0);
    const auto& a = c.as<RandomLikeAttributes>();
    d.check(c, a.dtype, a.a, a.b);
    require_first(c, a.first);
    return std::vector<Type>{{a.dtype, c.inputs[1].shape}};
  };
  op.reference = [&d](const ReferenceContext& c) {
    const auto& a = c.as<RandomLikeAttributes>();
    d.fill(c.outputs[0], bits_of(c.inputs[0]), static_cast<uint64_t>(a.first), a.a, a.b);
  };
  op.gradient = [](const BuildContext&) { return Values(2); };
  op.decompose = [&d](const BuildContext& c) {
    const auto& a = c.as<RandomLikeAttributes>();
    const RandomAttributes attributes{a.dtype, c.inputs[1].shape(), a.a, a.b, a.first};
    return Values{emit(d.name, {Operand(c.inputs[0], c.site)}, Attributes::of(attributes), c.site)};
  };
  op.traits = kRandom;
  op.sample = [&d](SampleSource& source) {
    if (!gives(d, source.dtype())) return Sample{};
    const auto [a, b] = d.draw(source);
    const RandomLikeAttributes attributes{source.dtype(), a, b, draw_first(source)};
    return Sample{{draw_key(source), source.values(source.shape(0, 3))},
                  [&d, attributes](Graph&, const Values& in) {
                    return Values{emit(d.like_name, {in[0], in[1]}, Attributes::of(attributes),
                                       in[0].node().site())};
                  }};
  };
  return op;
}

Value draw(const Distribution& d, Graph& graph, const RandomAttributes& attributes, CallSite site) {
  return emit(d.name, {Operand(random_key(graph, site), site)}, Attributes::of(attributes), site);
}

Value draw_like(const Distribution& d, const Operand& key, const Operand& like,
                const RandomLikeAttributes& attributes, CallSite site) {
  return emit(d.like_name, {key, like}, Attributes::of(attributes), site);
}

}  // namespace

Value fold_key(Operand key, Operand data, CallSite site) {
  return emit("fold_key", {key, data}, site);
}

Value uniform(Graph& graph, const Shape& shape, double low, double high, DType dtype,
              CallSite site) {
  return draw(kUniform, graph, {dtype, shape, low, high}, site);
}

Value normal(Graph& graph, const Shape& shape, double mean, double deviation, DType dtype,
             CallSite site) {
  return draw(kNormal, graph, {dtype, shape, mean, deviation}, site);
}

Value bernoulli(Graph& graph, double probability, const Shape& shape, CallSite site) {
  return draw(kBernoulli, graph, {boolean, shape, probability, 1}, site);
}

Value uniform_like(Operand key, Operand like, double low, double high, DType dtype, CallSite site) {
  return draw_like(kUniform, key, like, {dtype, low, high}, site);
}

Value normal_like(Operand key, Operand like, double mean, double deviation, DType dtype,
                  CallSite site) {
  return draw_like(kNormal, key, like, {dtype, mean, deviation}, site);
}

Value bernoulli_like(Operand key, Operand like, double probability, CallSite site) {
  return draw_like(kBernoulli, key, like, {boolean, probability, 1}, site);
}

Value dropout(Operand x, double rate, bool training, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const Value value = require_value(x, "dropout", "x", line);
  const bool is_real = is_float(value.dtype());
  if (!is_real || !(rate >= 0 && rate < 1)) {
    throw Error({.op = "dropout",
                 .argument = is_real ? "rate" : "x",
                 .expected = is_real ? "a number in [0, 1)" : "a Value of a float dtype",
                 .got = is_real ? printable(rate) : to_string(value.type()),
                 .site = line});
  }
  value.graph().require_open("dropout", "x", value, line);
  if (!training || rate == 0) return value;
  const double scale = 1 / (1 - rate);
  if (!holds(value.dtype(), scale)) {
    throw Error(
        {.op = "dropout",
         .argument = "rate",
         .expected = std::string("one whose scale 1 / (1 - rate) fits ") + name_of(value.dtype()),
         .got = printable(rate),
         .fix = "give a smaller rate, or cast x to f32",
         .site = line});
  }
  const Value key = random_key(value.graph(), line);
  const Value keep = bernoulli_like(key, x, 1 - rate, line);
  return select(keep, mul(x, scale, line), 0, line);
}

void fill_uniform_elements(DType dtype, void* out, size_t count, uint64_t key, uint64_t first,
                           double low, double high) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float(dtype_of<T>)) {
      fill_elements(
          static_cast<T*>(out), count, key, first,
          [](auto* draws, size_t n, uint64_t k, uint64_t from) { fill_uniform(draws, n, k, from); },
          [=](double u) { return low + (high - low) * u; });
    }
  });
}

void fill_normal_elements(DType dtype, void* out, size_t count, uint64_t key, uint64_t first,
                          double mean, double deviation) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float(dtype_of<T>)) {
      fill_elements(
          static_cast<T*>(out), count, key, first,
          [](auto* draws, size_t n, uint64_t k, uint64_t from) { fill_normal(draws, n, k, from); },
          [=](double z) { return mean + deviation * z; });
    }
  });
}

void register_random(OpTable& table) {
  table.add({.name = "fold_key",
             .summary = "a random key derived from a key and a number",
             .input_names = {"key", "data"},
             .infer = infer_fold_key,
             .reference = reference_fold_key,
             .gradient = [](const BuildContext&) { return Values(2); },
             .traits = kRandom,
             .sample = sample_fold_key});
  for (const Distribution* d : {&kUniform, &kNormal, &kBernoulli}) {
    table.add(random_op(*d));
    table.add(random_like_op(*d));
  }
}

}  // namespace keel
