// Which zero and which NaN an op gave depended on the backend, on its host instruction set and on
// fusion, so that states had other hashes. ops/README.md says what is right ("Zeros", "NaN").
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/fusion.h"
#include "support/random_graph.h"
#include "unit/vector_for_tests.h"

namespace keel {
namespace {

// Bits of an element, in the lowest ones.
uint64_t bits_at(const Tensor& t, int64_t i) {
  uint64_t bits = 0;
  const size_t size = size_of(t.dtype());
  std::memcpy(&bits, static_cast<const char*>(t.raw()) + static_cast<size_t>(i) * size, size);
  return bits;
}

void set_bits(Tensor& t, int64_t i, uint64_t bits) {
  const size_t size = size_of(t.dtype());
  std::memcpy(static_cast<char*>(t.raw()) + static_cast<size_t>(i) * size, &bits, size);
}

struct Format {
  uint64_t sign, infinity, nan;
};
Format format_of(DType dtype) {
  if (dtype == f64) return {uint64_t{1} << 63, 0x7ff0000000000000, 0x7ff8000000000000};
  if (dtype == f32) return {0x80000000, 0x7f800000, 0x7fc00000};
  return dtype == f16 ? Format{0x8000, 0x7c00, 0x7e00} : Format{0x8000, 0x7f80, 0x7fc0};
}

// Zeros, infinities, numbers, subnormals, the largest, and NaN of either sign, quiet and
// signalling, with and without payload.
std::vector<uint64_t> special_bits(DType dtype) {
  const Format f = format_of(dtype);
  std::vector<uint64_t> bits{0, 1, 3, f.infinity - 1, f.infinity, f.nan, f.nan + 5, f.infinity + 1};
  for (const double number : {0.5, 1.0, 2.5, 30.0}) {
    bits.push_back(bits_at(Tensor::full(dtype, {}, number), 0));
  }
  const size_t positive = bits.size();
  for (size_t i = 0; i < positive; ++i) bits.push_back(bits[i] | f.sign);
  return bits;
}

// The specials in an order of their own, again and again.
Tensor specials(DType dtype, const Shape& shape, uint64_t step) {
  const std::vector<uint64_t> bits = special_bits(dtype);
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    set_bits(t, i,
             bits[(static_cast<uint64_t>(i) / step + static_cast<uint64_t>(i)) % bits.size()]);
  }
  return t;
}

// Every pair of them, one tensor for each side.
std::pair<Tensor, Tensor> pairs(DType dtype) {
  const std::vector<uint64_t> bits = special_bits(dtype);
  const auto n = static_cast<int64_t>(bits.size());
  Tensor a(dtype, {n * n}), b(dtype, {n * n});
  for (int64_t i = 0; i < n * n; ++i) {
    set_bits(a, i, bits[static_cast<size_t>(i / n)]);
    set_bits(b, i, bits[static_cast<size_t>(i % n)]);
  }
  return {a, b};
}

// IEEE 754-2019's maximum (or minimum), element by element, on the bits.
Tensor expected_extreme(const Tensor& a, const Tensor& b, bool largest) {
  Tensor result(a.dtype(), a.shape());
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.at(i), y = b.at(i);
    uint64_t bits = bits_at(b, i);
    if (std::isnan(x) || std::isnan(y))
      bits = format_of(a.dtype()).nan;
    else if (x != y ? (x > y) == largest : std::signbit(x) != largest)
      bits = bits_at(a, i);
    set_bits(result, i, bits);
  }
  return result;
}

std::string first_difference(const Tensor& got, const Tensor& expected) {
  if (got.type() != expected.type()) return "types differ";
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    if (bits_at(got, i) == bits_at(expected, i)) continue;
    std::ostringstream text;
    text << "element " << i << ": " << got.at(i) << " (" << std::hex << bits_at(got, i)
         << "), expected " << expected.at(i) << " (" << bits_at(expected, i) << ")";
    return text.str();
  }
  return "";
}

// f(backend) for `cpu` and `npu` with every instruction set of the host.
template <class F>
void on_every_backend(F f) {
  vector_test::on_every_isa([&] {
    f("cpu");
    f("npu");
  });
}

// Pairs in the lanes of rows of 2 and of 150 elements; the others are the identity.
Tensor in_rows(const Tensor& a, const Tensor& b, int64_t length, double others) {
  Tensor rows = Tensor::full(a.dtype(), {a.num_elements(), length}, others);
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    set_bits(rows, i * length + i % (length - 1), bits_at(a, i));
    set_bits(rows, i * length + length - 1, bits_at(b, i));
  }
  return rows;
}

std::vector<Tensor> extremes(const std::string& where, const Tensor& a, const Tensor& b,
                             const Tensor& rows, bool largest, bool fuse) {
  Graph g;
  const DType dtype = a.dtype();
  const Value x = g.input("x", dtype, a.shape()), y = g.input("y", dtype, b.shape()),
              z = g.input("z", dtype, rows.shape());
  const Value columns = transpose(z);
  Session session(g, device(where), {.disabled_passes = keel_test::fusion(fuse)});
  const Values fetches = largest ? Values{maximum(x, y), max(z, {1}), max(columns, {0})}
                                 : Values{minimum(x, y), min(z, {1}), min(columns, {0})};
  return session.run(fetches, {{x, a}, {y, b}, {z, rows}});
}

void check_extremes(const std::string& where, DType dtype) {
  const auto [a, b] = pairs(dtype);
  for (const bool largest : {true, false}) {
    const Tensor expected = expected_extreme(a, b, largest);
    for (const int64_t length : {2, 150}) {
      const double identity = largest ? -INFINITY : INFINITY;
      const Tensor rows = in_rows(a, b, length, identity);
      for (const bool fuse : {true, false}) {
        const std::vector<Tensor> got = extremes(where, a, b, rows, largest, fuse);
        for (size_t i = 0; i < got.size(); ++i) {
          CAPTURE(where);
          CAPTURE(std::string(name_of(dtype)));
          CAPTURE(largest);
          CAPTURE(length);
          CAPTURE(fuse);
          CAPTURE(i);
          CHECK(first_difference(got[i], expected) == "");
        }
      }
    }
  }
}

// What fusing rewrites or orders anew, and what stands around it.
using Expression = Value (*)(const Value&, const Value&, const Value&);
#define KEEL_EXPRESSION(text)                          \
  [](const Value& x, const Value& y, const Value& z) { \
    static_cast<void>(y);                              \
    static_cast<void>(z);                              \
    return Value(text);                                \
  }
constexpr Expression kExpressions[] = {
    KEEL_EXPRESSION(x + (-y)),
    KEEL_EXPRESSION((-x) + y),
    KEEL_EXPRESSION(x - (-y)),
    KEEL_EXPRESSION(x + z * y),
    KEEL_EXPRESSION(z* y + x),
    KEEL_EXPRESSION(z* y - x),
    KEEL_EXPRESSION(x - z * y),
    KEEL_EXPRESSION(-(x* y) + z),
    KEEL_EXPRESSION(maximum(x, y) * z),
    KEEL_EXPRESSION(minimum(-x, y) + z),
    KEEL_EXPRESSION(relu(x - y) + z),
    KEEL_EXPRESSION(gelu(x) + y),
    KEEL_EXPRESSION(abs(x) - y * y),
    KEEL_EXPRESSION(select(less(x, y), x, -y) + z),
    KEEL_EXPRESSION(clamp(x, y, z) - x),
    KEEL_EXPRESSION(sign(x) * y),
    KEEL_EXPRESSION(sum(x + (-y), {1})),
    KEEL_EXPRESSION(max(x* y, {1})),
    KEEL_EXPRESSION(min(x + z * y, {0})),
    KEEL_EXPRESSION(max(-x, {0, 1}) * 2.0),
    KEEL_EXPRESSION(sum(x* y) + max(z)),
};
#undef KEEL_EXPRESSION

// Each expression has inputs of its own: what two of them share would not be fused.
std::vector<Tensor> evaluate(const std::string& where, DType dtype, bool fuse) {
  const Shape shape{24, 37};
  Graph g;
  Values fetches;
  Feeds feeds;
  for (const Expression expression : kExpressions) {
    Values inputs;
    for (const uint64_t step : {1000000u, 24u, 7u}) {
      inputs.push_back(g.input("x" + std::to_string(feeds.size()), dtype, shape));
      feeds.emplace_back(inputs.back(), specials(dtype, shape, step));
    }
    fetches.push_back(expression(inputs[0], inputs[1], inputs[2]));
  }
  Session session(g, device(where), {.disabled_passes = keel_test::fusion(fuse)});
  return session.run(fetches, feeds);
}

// Zero or NaN, where one of them is: of other results only bounds are promised across backends.
std::string zeros_and_nans(const Tensor& got, const Tensor& expected) {
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const double x = got.at(i), y = expected.at(i);
    const bool same_kind = std::isnan(x) == std::isnan(y);
    const bool differ =
        std::isnan(x) || (x == 0 && y == 0) ? bits_at(got, i) != bits_at(expected, i) : false;
    if (same_kind && !differ) continue;
    std::ostringstream text;
    text << "element " << i << ": " << x << " (" << std::hex << bits_at(got, i) << "), ref " << y
         << " (" << bits_at(expected, i) << ")";
    return text.str();
  }
  return "";
}

// Ops of floats, one result element for each element.
std::vector<const OpDef*> float_ops(size_t inputs) {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : builtin_ops().all()) {
    const bool computes = op->has(kElementwise) && !op->has(kMovement | kView);
    if (computes && op->attributes == nullptr && op->input_names.size() == inputs)
      ops.push_back(op);
  }
  return ops;
}

struct Results {
  std::vector<std::string> ops;
  std::vector<Tensor> tensors;
};

Results all_ops(const std::string& where, DType dtype) {
  const auto [a, b] = pairs(dtype);
  Graph g;
  const Value x = g.input("x", dtype, a.shape()), y = g.input("y", dtype, b.shape());
  Values fetches;
  Results results;
  for (const size_t inputs : {1u, 2u}) {
    for (const OpDef* op : float_ops(inputs)) {
      const std::vector<Operand> operands =
          inputs == 1 ? std::vector<Operand>{x} : std::vector<Operand>{x, y};
      try {
        fetches.push_back(emit(op->name, operands, {}, {}));
        results.ops.push_back(op->name);
      } catch (const Error&) {
        continue;  // not of floats
      }
    }
  }
  Session session(g, device(where), {.disabled_passes = keel_test::fusion(false)});
  results.tensors = session.run(fetches, {{x, a}, {y, b}});
  return results;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("extremes of every pair of special values are those of IEEE 754 everywhere") {
  for (const DType dtype : {f32, f16, bf16}) {
    check_extremes("ref", dtype);
    on_every_backend([&](const std::string& where) { check_extremes(where, dtype); });
  }
  check_extremes("ref", f64);
  check_extremes("cpu", f64);
}

TEST_CASE("zeros and NaN have the same sign on every backend") {
  for (const DType dtype : {f32, f16, bf16}) {
    const Results expected = all_ops("ref", dtype);
    REQUIRE(expected.ops.size() > 25);
    on_every_backend([&](const std::string& where) {
      const Results got = all_ops(where, dtype);
      for (size_t i = 0; i < got.ops.size(); ++i) {
        CAPTURE(where);
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(got.ops[i]);
        CHECK(zeros_and_nans(got.tensors[i], expected.tensors[i]) == "");
      }
    });
  }
}

TEST_CASE("special values have the same bits with fusion and without") {
  for (const DType dtype : {f32, f16, bf16}) {
    on_every_backend([&](const std::string& where) {
      const std::vector<Tensor> fused = evaluate(where, dtype, true);
      const std::vector<Tensor> plain = evaluate(where, dtype, false);
      for (size_t i = 0; i < fused.size(); ++i) {
        CAPTURE(where);
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(i);
        CHECK(first_difference(fused[i], plain[i]) == "");
      }
    });
  }
}

TEST_CASE("random graphs of special values have the same bits with fusion and without") {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    keel_test::RandomGraph made = keel_test::random_graph(seed, 25);
    Graph& g = *made.graph;
    Feeds feeds;
    std::map<std::string, Tensor> states;
    for (const auto& [name, tensor] : made.feeds) {
      const Tensor values = specials(f32, tensor.shape(), seed % 5 + 1);
      if (g.find_state(name).valid()) states[name] = values;
      for (const Value& input : g.inputs()) {
        if (name_of(input.node()) == name) feeds.emplace_back(input, values);
      }
    }
    for (const char* where : {"cpu", "npu"}) {
      CAPTURE(std::string(where));
      std::vector<std::vector<Tensor>> results;
      std::vector<std::string> hashes;
      for (const bool fuse : {true, false}) {
        Session session(g, device(where), {.disabled_passes = keel_test::fusion(fuse)});
        for (const auto& [name, values] : states) session.write(g.find_state(name), values);
        results.push_back(session.run(Update{g.updates()}, g.outputs(), feeds));
        hashes.push_back(session.state_sha256());
      }
      for (size_t i = 0; i < results[0].size(); ++i) {
        CAPTURE(i);
        CHECK(first_difference(results[0][i], results[1][i]) == "");
      }
      CHECK(hashes[0] == hashes[1]);
    }
  }
}

TEST_CASE("a NaN that leaves a session is one and the same") {
  const Format f = format_of(f32);
  for (const char* where : {"ref", "cpu", "npu"}) {
    CAPTURE(std::string(where));
    Graph g;
    const Value w = g.state("w", zeros({3}));
    Session session(g, device(where));
    Tensor nans(f32, {3});
    set_bits(nans, 0, f.nan | f.sign);
    set_bits(nans, 1, f.nan + 77);
    set_bits(nans, 2, f.infinity + 1);
    session.write(w, nans);
    const Tensor fetched = session.run({w + 1.0})[0];
    const Tensor read = session.read(w);
    for (int64_t i = 0; i < 3; ++i) {
      CHECK(bits_at(fetched, i) == f.nan);
      CHECK(bits_at(read, i) == f.nan);
    }
    const std::string hash = session.state_sha256();
    set_bits(nans, 1, f.nan);
    session.write(w, nans);
    CHECK(session.state_sha256() == hash);
    const Value total = sum(w);
    const LoopReport report = session.sink({.fetches = {total}}).run(2);
    REQUIRE(report[total].size() == 2);
    for (const double x : report[total]) CHECK(std::bit_cast<uint64_t>(x) == format_of(f64).nan);
  }
}

TEST_SUITE_END();

}  // namespace keel
