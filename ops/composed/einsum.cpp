#include "keel/ops/composed/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

[[noreturn]] void fail_einsum(const std::string& argument, const std::string& expected,
                              const std::string& got, CallSite site, const std::string& fix = "") {
  throw Error({.op = "einsum",
               .argument = argument,
               .expected = expected,
               .got = got,
               .fix = fix,
               .site = site});
}

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

struct Equation {
  std::vector<std::string> operands;
  std::optional<std::string> result;  // one from name_all_axes on
};

constexpr const char* kEllipsis = "...";

// Letters, and at most one ellipsis.
void require_letters(std::string term, const std::string& equation, CallSite site) {
  if (const size_t at = term.find(kEllipsis); at != std::string::npos) term.erase(at, 3);
  for (const char c : term) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) continue;
    fail_einsum("equation", "letters, commas, at most one \"->\", and one \"...\" for each operand",
                "\"" + std::string(1, c) + "\" in \"" + equation + "\"", site);
  }
}

// Cuts the equation at its signs. A result that is left out stays so.
Equation parse(const std::string& equation, CallSite site) {
  std::string text;
  for (const char c : equation) {
    if (c != ' ') text += c;
  }
  const size_t arrow = text.find("->");
  Equation parsed{{""}, std::nullopt};
  for (const char c : text.substr(0, arrow)) {
    if (c == ',')
      parsed.operands.emplace_back();
    else
      parsed.operands.back() += c;
  }
  for (const std::string& term : parsed.operands) require_letters(term, equation, site);
  if (arrow == std::string::npos) return parsed;
  parsed.result = text.substr(arrow + 2);
  require_letters(*parsed.result, equation, site);
  return parsed;
}

// Digits for the axes that an ellipsis stands for, which no axis of the user's has: 0 is the last.
std::string unnamed_axes(size_t count) {
  std::string digits;
  for (size_t i = count; i-- > 0;) digits += static_cast<char>('0' + i);
  return digits;
}

// Puts `digits` in the place of the ellipsis.
std::string with_unnamed(std::string term, const std::string& digits) {
  if (const size_t at = term.find(kEllipsis); at != std::string::npos) term.replace(at, 3, digits);
  return term;
}

// Names the axes of an ellipsis, and the result's where it was left out.
void name_all_axes(Equation& equation, const std::string& text, const std::vector<Shape>& shapes,
                   CallSite site) {
  size_t unnamed = 0;
  std::map<char, int> count;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::string& term = equation.operands[i];
    const size_t rank = shapes[i].rank();
    const bool open = term.find(kEllipsis) != std::string::npos;
    const size_t named = term.size() - (open ? 3 : 0);
    if (rank < named || (!open && rank > named)) {
      fail_einsum("operand " + std::to_string(i),
                  std::string(open ? "at least " : "") + std::to_string(named) + " axes, for \"" +
                      term + "\"",
                  to_string(shapes[i]), site);
    }
    unnamed = std::max(unnamed, rank - named);
    term = with_unnamed(term, unnamed_axes(rank - named));
    for (const char c : term) ++count[c];
  }
  const std::string digits = unnamed_axes(unnamed);
  if (!equation.result) {
    equation.result = digits;
    for (const auto& [letter, times] : count) {
      if (times == 1 && !has(digits, letter)) *equation.result += letter;
    }
    return;
  }
  equation.result = with_unnamed(*equation.result, digits);
  for (const char c : *equation.result) {
    if (count[c] == 0) {
      fail_einsum("equation", "a result of letters that operands have",
                  "\"" + std::string(1, c) + "\" behind \"->\" in \"" + text + "\"", site);
    }
    if (std::count(equation.result->begin(), equation.result->end(), c) > 1) {
      fail_einsum("equation", "each letter of the result once",
                  "\"" + std::string(1, c) + "\" twice behind \"->\" in \"" + text + "\"", site);
    }
  }
}

// Names an axis in errors.
std::string axis_name(char letter) {
  if (std::isdigit(static_cast<unsigned char>(letter)) == 0)
    return "the axis \"" + std::string(1, letter) + "\"";
  return "the axis " + std::to_string('0' - letter - 1) + " of \"...\"";
}

// A value whose axes have letters, each once.
struct Term {
  Value value;
  std::string letters;

  int64_t axis(char letter) const { return static_cast<int64_t>(letters.find(letter)); }
  int64_t dim(char letter) const { return value.shape()[letters.find(letter)]; }
};

// The steps of one call.
class Einsum {
 public:
  Einsum(Equation equation, CallSite site) : equation_(std::move(equation)), site_(site) {}

  Value run(const Values& operands) {
    std::vector<Term> terms;
    for (size_t i = 0; i < operands.size(); ++i) {
      terms.push_back(diagonals({operands[i], equation_.operands[i]}, i));
    }
    require_sizes(terms);
    Term total = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      std::string later = *equation_.result;
      for (size_t k = i + 1; k < terms.size(); ++k) later += terms[k].letters;
      total = combined(total, terms[i], later);
    }
    return ordered(without(total, *equation_.result), *equation_.result).value;
  }

 private:
  // Takes the diagonal of letters that an operand has twice: it merges the axes and takes each
  // size + 1st element.
  Term diagonals(Term term, size_t operand) const {
    for (;;) {
      size_t second = 0, first = 0;
      for (size_t i = 0; i < term.letters.size() && second == 0; ++i) {
        first = term.letters.find(term.letters[i]);
        second = first == i ? 0 : i;
      }
      if (second == 0) return term;
      const char letter = term.letters[first];
      const int64_t size = term.value.shape()[first];
      if (size < 0 || term.value.shape()[second] != size) {
        fail_einsum("operand " + std::to_string(operand),
                    "axes of one known size for the letter \"" + std::string(1, letter) + "\"",
                    to_string(term.value.shape()), site_);
      }
      std::string rest;
      for (size_t i = 0; i < term.letters.size(); ++i) {
        if (i != first && i != second) rest += term.letters[i];
      }
      std::vector<int64_t> perm;
      Shape flat;
      for (size_t i = 0; i < term.letters.size(); ++i) {
        if (i == first || i == second) continue;
        perm.push_back(static_cast<int64_t>(i));
        flat.push_back(term.value.shape()[i]);
      }
      perm.push_back(static_cast<int64_t>(first));
      perm.push_back(static_cast<int64_t>(second));
      flat.push_back(checked_mul(size, size, "einsum"));
      if (size == 0 || is_undetermined(flat)) {
        // There are no elements; a sum over one of the axes leaves the right shape.
        std::string left = term.letters;
        left.erase(second, 1);
        term = {sum(term.value, {static_cast<int64_t>(second)}, false, site_), left};
        continue;
      }
      std::vector<int64_t> begin(flat.rank(), 0), end(flat.rank(), kToEnd), strides(flat.rank(), 1);
      strides.back() = size + 1;
      const Value together = reshape(transpose(term.value, perm, site_), flat, site_);
      term = {slice(together, begin, end, strides, site_), rest + letter};
    }
  }

  // A letter stands for one size. Where sizes are unknown now, the terms check them when the graph
  // is compiled: matmul and mul would broadcast a 1.
  void require_sizes(std::vector<Term>& terms) const {
    require_known_sizes(terms);
    std::map<char, size_t> owners;  // the first term that has the letter
    for (size_t i = 0; i < terms.size(); ++i) {
      std::map<size_t, SameDimsAttributes> checks;  // by the other term
      for (const char letter : terms[i].letters) {
        const auto [it, added] = owners.emplace(letter, i);
        if (added || (terms[i].dim(letter) >= 0 && terms[it->second].dim(letter) >= 0)) continue;
        SameDimsAttributes& check = checks[it->second];
        check.axes.push_back(terms[i].axis(letter));
        check.other_axes.push_back(terms[it->second].axis(letter));
      }
      for (auto& [other, check] : checks) {
        check.caller = "einsum";
        check.argument = "operand " + std::to_string(i);
        terms[i].value = same_dims(terms[i].value, terms[other].value, std::move(check), site_);
      }
    }
  }

  void require_known_sizes(const std::vector<Term>& terms) const {
    std::map<char, int64_t> sizes;
    for (size_t i = 0; i < terms.size(); ++i) {
      for (const char letter : terms[i].letters) {
        const int64_t dim = terms[i].dim(letter);
        const auto [it, added] = sizes.emplace(letter, dim);
        if (added || dim < 0) continue;
        if (it->second >= 0 && it->second != dim) {
          fail_einsum("operand " + std::to_string(i),
                      "size " + std::to_string(it->second) + " of " + axis_name(letter) +
                          ", as in an operand before",
                      to_string(terms[i].value.shape()), site_);
        }
        it->second = dim;
      }
    }
  }

  // Summed over what is not kept.
  Term without(const Term& term, const std::string& kept) const {
    std::vector<int64_t> axes;
    std::string rest;
    for (size_t i = 0; i < term.letters.size(); ++i) {
      if (has(kept, term.letters[i]))
        rest += term.letters[i];
      else
        axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) return term;
    return {sum(term.value, axes, false, site_), rest};
  }

  // Transposes the term to this order of axes; letters that the term lacks are left out.
  Term ordered(const Term& term, const std::string& order) const {
    std::vector<int64_t> perm;
    std::string letters;
    for (const char c : order) {
      if (!has(term.letters, c)) continue;
      perm.push_back(static_cast<int64_t>(term.letters.find(c)));
      letters += c;
    }
    if (letters == term.letters) return term;
    return {transpose(term.value, perm, site_), letters};
  }

  Term combined(const Term& left, const Term& right, const std::string& later) const {
    const Term a = without(left, right.letters + later);
    const Term b = without(right, left.letters + later);
    std::string batch, rows, summed, columns;
    for (const char c : a.letters) {
      if (!has(b.letters, c))
        rows += c;
      else if (has(later, c))
        batch += c;
      else
        summed += c;
    }
    for (const char c : b.letters) {
      if (!has(a.letters, c)) columns += c;
    }
    const std::string kept = batch + rows + columns;
    // matmul takes two axes beside the batch's, and merged axes whose sizes reshape can tell.
    const bool elementwise =
        summed.empty() || batch.size() + 2 > Shape::kMaxRank || leaves_undetermined(a, b);
    require_rank(elementwise ? kept + summed : kept);
    if (elementwise) return without(multiplied(a, b, kept + summed), kept);
    const Value product =
        matmul(matrices(a, batch, rows, summed), matrices(b, batch, summed, columns), {}, site_);
    return {reshape_result(product, a, b, batch, rows, columns), batch + rows + columns};
  }

  // Returns whether a size is 0 and another one unknown: reshape could not tell the unknown one.
  static bool leaves_undetermined(const Term& a, const Term& b) {
    bool unknown = false, empty = false;
    for (const Term* term : {&a, &b}) {
      for (const int64_t dim : term->value.shape()) {
        unknown = unknown || dim < 0;
        empty = empty || dim == 0;
      }
    }
    return unknown && empty;
  }
  void require_rank(const std::string& letters) const {
    if (letters.size() <= Shape::kMaxRank) return;
    fail_einsum(
        "equation",
        "at most " + std::to_string(Shape::kMaxRank) + " axes in the result and on the way to it",
        std::to_string(letters.size()) + " (\"" + letters + "\")", site_,
        "sum over axes of single operands first, or merge axes with reshape");
  }

  // Element by element, as accurate as a single product is.
  Term multiplied(const Term& a, const Term& b, const std::string& all) const {
    return {mul(spread(a, all), spread(b, all), site_), all};
  }
  Value spread(const Term& term, const std::string& all) const {
    std::vector<int64_t> missing;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!has(term.letters, all[i])) missing.push_back(static_cast<int64_t>(i));
    }
    const Value value = ordered(term, all).value;
    return missing.empty() ? value : expand_dims(value, missing, site_);
  }

  // [batch..., first, second], where each of the last two stands for all axes of its letters.
  Value matrices(const Term& term, const std::string& batch, const std::string& first,
                 const std::string& second) const {
    const Term lined = ordered(term, batch + first + second);
    if (first.size() == 1 && second.size() == 1) return lined.value;
    Shape shape;
    for (const char c : batch) shape.push_back(term.dim(c));
    shape.push_back(merged(term, first));
    shape.push_back(merged(term, second));
    require_one_unknown(shape, term);
    return reshape(lined.value, shape, site_);
  }
  int64_t merged(const Term& term, const std::string& letters) const {
    int64_t size = 1;
    for (const char c : letters) {
      const int64_t dim = term.dim(c);
      size = size < 0 || dim < 0 ? kUnknownDim : checked_mul(size, dim, "einsum");
    }
    return size;
  }

  Value reshape_result(const Value& product, const Term& a, const Term& b, const std::string& batch,
                       const std::string& rows, const std::string& columns) const {
    if (rows.size() == 1 && columns.size() == 1) return product;
    Shape shape;
    for (const char c : batch) shape.push_back(a.dim(c) < 0 ? b.dim(c) : a.dim(c));
    for (const char c : rows) shape.push_back(a.dim(c));
    for (const char c : columns) shape.push_back(b.dim(c));
    require_one_unknown(shape, {product, batch + rows + columns});
    return reshape(product, shape, site_);
  }
  void require_one_unknown(const Shape& shape, const Term& term) const {
    int64_t unknown = 0;
    for (const int64_t dim : shape) unknown += dim < 0 ? 1 : 0;
    if (unknown <= 1) return;
    fail_einsum("operands", "at most one unknown dimension where axes are merged for a product",
                "\"" + term.letters + "\" of shape " + to_string(shape), site_,
                "give the inputs known dimensions");
  }

  Equation equation_;
  CallSite site_;
};

}  // namespace

Value einsum(const std::string& equation, const Values& operands, CallSite site) {
  Equation parsed = parse(equation, site);
  if (parsed.operands.size() != operands.size()) {
    fail_einsum(
        "operands",
        std::to_string(parsed.operands.size()) + " values, as many as \"" + equation + "\" has",
        std::to_string(operands.size()), site);
  }
  std::vector<Shape> shapes;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string argument = "operand " + std::to_string(i);
    const Value value = require_value(Operand(operands[i], site), "einsum", argument.c_str(), site);
    if (value.dtype() != operands[0].dtype() || !is_number(value.dtype())) {
      fail_einsum(argument, "one number dtype for all operands", name_of(value.dtype()), site,
                  "convert with cast(x, dtype)");
    }
    shapes.push_back(value.shape());
  }
  name_all_axes(parsed, equation, shapes, site);
  return Einsum(std::move(parsed), site).run(operands);
}

}  // namespace keel
