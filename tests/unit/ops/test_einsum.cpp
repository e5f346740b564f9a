// einsum, and products of three and four axes: plain loops for outputs, differences for gradients.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gradients_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("products of three and four axes broadcast their batches on every backend") {
  const Tensor a = waves({2, 1, 3, 4}, 0, f32), b = waves({5, 4, 2}, 1, f32);
  Doubles expected;
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t c = 0; c < 2; ++c) {
          double total = 0;
          for (int64_t k = 0; k < 4; ++k) {
            total += a.at((i * 3 + r) * 4 + k) * b.at((j * 4 + k) * 2 + c);
          }
          expected.push_back(total);
        }
      }
    }
  }
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1, 1, 3, 4}), y = g.input("y", f32, {5, 4, 2});
    Session session(g, device(backend));
    check_close(elements(session.run(matmul(x, y), {{x, a}, {y, b}})), expected, 1e-5);
  }
  check_backends([](Graph&, const Values& x) { return sum(square(matmul(x[0], x[1]))); }, {a, b});
  check_differences([](Graph&, const Values& x) { return sum(square(matmul(x[0], x[1]))); },
                    {waves({2, 1, 2, 3}, 0), waves({2, 3, 2}, 1)});
}

// The sum over all letters but the result's of products of elements, letter by letter.
Doubles by_loops(const std::string& equation, const std::vector<Tensor>& operands) {
  std::vector<std::string> terms{""};
  const size_t arrow = equation.find("->");
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  const std::string result = equation.substr(arrow + 2);
  std::string letters;
  std::vector<int64_t> sizes;
  for (size_t t = 0; t < terms.size(); ++t) {
    for (size_t i = 0; i < terms[t].size(); ++i) {
      if (letters.find(terms[t][i]) != std::string::npos) continue;
      letters += terms[t][i];
      sizes.push_back(operands[t].shape()[i]);
    }
  }
  const auto size_of_letter = [&](char c) { return sizes[letters.find(c)]; };
  int64_t all = 1, results = 1;
  for (const int64_t size : sizes) all *= size;
  for (const char c : result) results *= size_of_letter(c);
  Doubles sums(static_cast<size_t>(results), 0);
  for (int64_t flat = 0; flat < all; ++flat) {
    std::vector<int64_t> index(letters.size());
    int64_t rest = flat;
    for (size_t i = 0; i < letters.size(); ++i) {
      index[i] = rest % sizes[i];
      rest /= sizes[i];
    }
    const auto offset = [&](const std::string& term) {
      int64_t at = 0;
      for (const char c : term) at = at * size_of_letter(c) + index[letters.find(c)];
      return at;
    };
    double product = 1;
    for (size_t t = 0; t < terms.size(); ++t) product *= operands[t].at(offset(terms[t]));
    sums[static_cast<size_t>(offset(result))] += product;
  }
  return sums;
}

// On every backend, beside the loops of `named`: the same equation where each axis has a letter.
void check_einsum(const std::string& equation, const std::string& named,
                  const std::vector<Shape>& shapes) {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    const DType dtype = backend == "ref" ? f64 : f32;
    Graph g;
    Values values;
    Feeds feeds;
    std::vector<Tensor> tensors;
    for (const Shape& shape : shapes) {
      tensors.push_back(waves(shape, static_cast<double>(tensors.size()), dtype));
      values.push_back(g.input("x" + std::to_string(values.size()), dtype, shape));
      feeds.push_back({values.back(), tensors.back()});
    }
    Session session(g, device(backend));
    check_close(elements(session.run(einsum(equation, values), feeds)), by_loops(named, tensors),
                dtype == f64 ? 1e-13 : 1e-5);
  }
}

TEST_CASE("einsum agrees with loops over its letters") {
  struct Row {
    std::string equation;
    std::vector<Shape> shapes;
  };
  const std::vector<Row> rows = {
      {"ij,jk->ik", {{2, 3}, {3, 4}}},
      {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
      {"bij,bkj->bik", {{2, 3, 4}, {2, 5, 4}}},
      {"ij,jk->ki", {{2, 3}, {3, 4}}},
      {"bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}},
      {"bhqk,bkhd->bqhd", {{2, 2, 3, 5}, {2, 5, 2, 4}}},
      {"ijk,jkl->il", {{2, 3, 4}, {3, 4, 2}}},
      {"abc,cd->abd", {{2, 3, 4}, {4, 5}}},
      {"i,j->ij", {{3}, {4}}},
      {"i,i->", {{4}, {4}}},
      {"i,i->i", {{4}, {4}}},
      {"ij->ji", {{2, 3}}},
      {"ij->i", {{2, 3}}},
      {"ij->", {{2, 3}}},
      {"ii->i", {{3, 3}}},
      {"ii->", {{3, 3}}},
      {"iij->ji", {{2, 2, 3}}},
      {"iii->i", {{3, 3, 3}}},
      {"ij,i->j", {{2, 3}, {2}}},
      {"ijk,k->ij", {{2, 3, 4}, {4}}},
      {"ij,kl->ijkl", {{2, 2}, {2, 3}}},
      {"ij,kl->il", {{2, 2}, {2, 3}}},
      {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 2}}},
      {"i,i,i->", {{3}, {3}, {3}}},
      {"ij,->ij", {{2, 3}, {}}},
      {"bij,bjk->bik", {{0, 3, 4}, {0, 4, 5}}},
      {"ij,jk->ik", {{2, 0}, {0, 3}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.equation);
    check_einsum(row.equation, row.equation, row.shapes);
  }
}

// Beside the loops of an equation that names the axes.
TEST_CASE("an ellipsis of einsum stands for axes without a letter") {
  check_einsum("...ij,jk->...ik", "abij,jk->abik", {{2, 3, 2, 4}, {4, 3}});
  check_einsum("...ij,...jk->...ik", "abij,bjk->abik", {{2, 3, 2, 4}, {3, 4, 2}});
  check_einsum("i...,i...->...", "iab,iab->ab", {{4, 2, 3}, {4, 2, 3}});
  check_einsum("b...d,d->...b", "bacd,d->acb", {{2, 3, 2, 4}, {4}});
  check_einsum("...ii->...i", "abii->abi", {{2, 3, 4, 4}});
  check_einsum("...ij", "abij->abij", {{2, 3, 4, 5}});
  check_einsum("...ji", "abji->abij", {{2, 3, 4, 5}});
  check_einsum("...i,...i", "abi,abi->ab", {{2, 3, 4}, {2, 3, 4}});
  check_einsum("...i->i", "abi->i", {{2, 3, 4}});
  check_einsum("...ij,jk->...ik", "ij,jk->ik", {{2, 4}, {4, 3}});
  check_einsum("...,...->...", "ab,ab->ab", {{2, 3}, {2, 3}});
  Graph g;
  const Value any = g.input("any", f32, {-1, 2, 3});
  CHECK(einsum("...i,ij->...j", {any, g.constant(waves({3, 5}, 0, f32))}).shape() ==
        Shape{-1, 2, 5});
}

TEST_CASE("einsum without a result has the letters that occur once in order") {
  Graph g;
  const Value a = g.constant(waves({2, 3}, 0)), b = g.constant(waves({3, 4}, 1));
  CHECK(einsum("ij, jk", {a, b}).shape() == Shape{2, 4});
  CHECK(einsum("ba", {a}).shape() == Shape{3, 2});
  CHECK(einsum("ii", {g.constant(waves({3, 3}, 0))}).shape() == Shape{});
  const Value x = g.input("x", f64, {-1, 2, 3});
  CHECK(einsum("bij,jk->bik", {x, b}).shape() == Shape{-1, 2, 4});
  CHECK(elements(einsum("bij,jk->bik", {x, b}), {{x, waves({5, 2, 3}, 0)}}).size() == 40);
  CHECK(elements(einsum("bij,bjk->ik", {x, einsum("bij->bji", {x})}), {{x, waves({5, 2, 3}, 0)}})
            .size() == 4);
}

TEST_CASE("gradients of einsum agree with differences and backends with ref") {
  const Loss loss = [](Graph&, const Values& x) {
    return sum(square(einsum("bqhd,bkhd->bhqk", {x[0], x[1]}))) +
           sum(square(einsum("bqhd,bqhe->hde", {x[0], x[1]})));
  };
  check_differences(loss, {waves({2, 2, 2, 2}, 0), waves({2, 2, 2, 2}, 1)});
  check_backends(loss, {waves({2, 2, 2, 2}, 0, f32), waves({2, 2, 2, 2}, 1, f32)});
}

TEST_CASE("einsum says what is wrong with an equation") {
  Graph g;
  const Value a = g.constant(waves({2, 3}, 0)), b = g.constant(waves({3, 4}, 1));
  const auto refused = [&](const std::string& equation, const Values& values,
                           const std::string& words) {
    const std::string text = error_of([&] { einsum(equation, values); });
    CAPTURE(text);
    CHECK(contains(text, words));
    CHECK(contains(text, "einsum"));
    CHECK(contains(text, __FILE__));
  };
  refused("ij,jk->ik", {a}, "2 values");
  refused("ij->ik", {a}, "\"k\" behind");
  refused("ij->ii", {a}, "twice");
  refused("ijk->i", {a}, "3 axes");
  refused("ij,ik->jk", {a, b}, "size 2 of the axis \"i\"");
  refused(".ij->ij", {a}, "one \"...\" for each operand");
  refused("......ij->ij", {a}, "one \"...\" for each operand");
  refused("...ijk->i", {a}, "at least 3 axes");
  refused("...i,...i->...", {a, g.constant(waves({2, 4}, 1))}, "size 3 of the axis \"i\"");
  refused("...i,...j->...ij", {a, b}, "size 2 of the axis -1 of \"...\"");
  refused("i1->i", {a}, "letters");
  refused("ij->i->j", {a}, "letters");
  refused("ii->i", {a}, "one known size");
  refused("ij,jk->ik", {a, g.constant(waves({3, 4}, 0, f32))}, "one number dtype");
  refused("ij,jk->ik", {a, Value()}, "operand 1");
}

}  // namespace

TEST_SUITE_END();
