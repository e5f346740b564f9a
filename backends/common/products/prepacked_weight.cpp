#include "keel/backends/common/products/prepacked_weight.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/backends/common/products/operand_load.h"
#include "keel/backends/common/uses.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {
namespace {

constexpr size_t kAlignment = 64;
constexpr std::string_view kPlain = "plain";

std::string text_of(const WeightUse& use) {
  return std::string(use.transposed ? "nk" : "kn") + ":" + name_of(use.round_to);
}

bool drop_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Compares by the order of copies in a buffer, and in its layout's word.
bool comes_before(const WeightUse& a, const WeightUse& b) {
  return std::pair(a.transposed, a.round_to) < std::pair(b.transposed, b.round_to);
}

std::vector<WeightUse> parse(const Layout& layout) {
  const std::string isa = host_isa_name();
  std::vector<WeightUse> uses;
  std::string_view rest = layout;
  bool known = drop_prefix(rest, kPlain);
  while (known && !rest.empty()) {
    WeightUse use;
    use.transposed = drop_prefix(rest, "+nk:");
    known = use.transposed || drop_prefix(rest, "+kn:");
    if (drop_prefix(rest, "bf16@")) {
      use.round_to = bf16;
    } else {
      known = known && drop_prefix(rest, "f32@");
    }
    known = known && drop_prefix(rest, isa) && (uses.empty() || comes_before(uses.back(), use));
    uses.push_back(use);
  }
  if (known) return uses;
  throw Error({.op = "prepacked weight",
               .argument = "layout",
               .expected = "copies for the host ISA in use, " + isa,
               .got = "'" + layout + "'"});
}

// Returns whether the node, or one of its body, is a product; which takes no more than a look.
bool has_product(const Node& node) {
  if (!is_fused_node(node)) return node.has(kProduct);
  const NodeStore& inside = node.bodies()[0]->nodes();
  return std::any_of(inside.begin(), inside.end(),
                     [](const Node& inner) { return inner.has(kProduct); });
}

}  // namespace

PrepackedWeight::PrepackedWeight(const Type& type, std::vector<WeightUse> uses)
    : rows_(static_cast<size_t>(type.shape[0])),
      columns_(static_cast<size_t>(type.shape[1])),
      plain_bytes_(type.shape.num_bytes(type.dtype)),
      bytes_(plain_bytes_) {
  std::sort(uses.begin(), uses.end(), comes_before);
  for (const WeightUse& use : uses) {
    CubeProblem problem;
    problem.k = use.transposed ? columns_ : rows_;
    problem.n = use.transposed ? rows_ : columns_;
    problem.m = problem.n;  // Products that read the copy are wide where n is.
    problem.round_to = use.round_to;
    problem.transpose_b = use.transposed;
    problem.packed_b = true;
    copies_.push_back({use, plan_cube(problem), align_up(bytes_, kAlignment)});
    bytes_ = copies_.back().offset + cube_packed_bytes(copies_.back().plan);
  }
}

PrepackedWeight::PrepackedWeight(const Type& type, const Layout& layout)
    : PrepackedWeight(type, parse(layout)) {}

Layout PrepackedWeight::layout() const {
  Layout word(kPlain);
  for (const Copy& copy : copies_) word += "+" + text_of(copy.use) + "@" + host_isa_name();
  return word;
}

size_t PrepackedWeight::offset(const WeightUse& use) const {
  return std::find_if(copies_.begin(), copies_.end(), [&](const Copy& c) { return c.use == use; })
      ->offset;
}

bool PrepackedWeight::takes_pieces(size_t copy, const CubeStep& step) const {
  const CubePackStep unit = cube_pack_step(copies_[copy].plan);
  const bool transposed = copies_[copy].use.transposed;
  return step.rows % (transposed ? unit.n : unit.k) == 0 &&
         step.columns % (transposed ? unit.k : unit.n) == 0;
}

void PrepackedWeight::pack_piece(size_t copy, char* buffer, const TileRectangle& piece) const {
  const Copy& c = copies_[copy];
  const auto row = static_cast<size_t>(piece.row), column = static_cast<size_t>(piece.column);
  const size_t rows = row + static_cast<size_t>(piece.rows);
  const size_t columns = column + static_cast<size_t>(piece.columns);
  const CubePart part = c.use.transposed ? CubePart{column, columns, row, rows}
                                         : CubePart{row, rows, column, columns};
  cube_pack(c.plan, buffer, columns_, part, buffer + c.offset);
}

void PrepackedWeight::pack_share(size_t copy, char* buffer, int64_t share, int64_t shares) const {
  const Copy& c = copies_[copy];
  cube_pack_share(c.plan, buffer, columns_, share, shares, buffer + c.offset);
}

void PrepackedWeight::fill_gaps(char* buffer) const {
  size_t end = plain_bytes_;
  for (const Copy& c : copies_) {
    std::memset(buffer + end, 0, c.offset - end);
    end = c.offset + cube_packed_bytes(c.plan);
  }
}

void PrepackedWeight::pack(char* buffer) const {
  fill_gaps(buffer);
  for (size_t i = 0; i < copies_.size(); ++i) pack_share(i, buffer, 0, 1);
}

std::string PrepackedWeight::description() const {
  std::string text;
  for (const Copy& c : copies_) {
    text += (text.empty() ? "" : " and ") + std::string(c.use.transposed ? "[n, k]" : "[k, n]") +
            " in " + name_of(c.use.round_to);
  }
  return text;
}

CubeProblem cube_problem(const AnchoredNode& fused) {
  return cube_problem(fused, fused.matrices());
}

CubeProblem cube_problem(const AnchoredNode& fused, const ProductMatrices& matrices) {
  CubeProblem problem;
  problem.m = static_cast<size_t>(matrices.m);
  problem.n = static_cast<size_t>(matrices.n);
  problem.k = static_cast<size_t>(matrices.k);
  problem.parts = static_cast<size_t>(matrices.parts);
  problem.rows_alone = matrices.rows_alone;
  problem.a = fused.stored(matrices.a.input).dtype();
  problem.b = fused.stored(matrices.b.input).dtype();
  problem.round_to = rounded_to(fused);
  problem.transpose_a = matrices.a.transposed;
  problem.transpose_b = matrices.b.transposed;
  problem.a_windows = matrices.a.windows;
  problem.b_windows = matrices.b.windows;
  return problem;
}

std::optional<WeightUse> weight_use(const AnchoredNode& fused) {
  if (fused.anchor().type().shape.rank() != 2) return std::nullopt;
  const CubeProblem problem = cube_problem(fused);
  if (problem.b != f32 || !cube_takes_packed(problem)) return std::nullopt;
  if (problem.round_to == f32 && cube_is_wide(problem)) return std::nullopt;
  return WeightUse{problem.transpose_b, problem.round_to};
}

std::optional<WeightUse> copy_read_by(const AnchoredNode& product, const StateLayouts& layouts) {
  const Value right = product.stored(1);
  const StateLayout* layout = layout_of(layouts, right);
  if (layout == nullptr || right.type() != root_of(right).type()) return std::nullopt;
  const auto use = weight_use(product);
  if (!use) return std::nullopt;
  const std::vector<WeightUse> kept = parse(layout->layout);
  return std::find(kept.begin(), kept.end(), *use) == kept.end() ? std::nullopt : use;
}

StateLayouts choose_weight_layouts(const Graph& step) {
  std::unordered_map<Value, std::vector<Value>, ValueHash> becomes;
  for (const Assignment& a : step.updates()) becomes[root_of(a.next)].push_back(a.state);
  // Whose next value a product's epilogue makes, and what that value is.
  std::unordered_map<Value, Value, ValueHash> next_of;
  for (const auto& [next, states] : becomes) {
    const Type& type = states.front().type();
    const bool matrix = type.dtype == f32 && type.shape.rank() == 2;
    if (states.size() != 1 || !matrix || next.type() != type || !has_product(next.node())) continue;
    const AnchoredNode maker(next.node());
    if (maker.is_product() && maker.has_epilogue() && maker.anchor().type().shape == type.shape) {
      next_of[states.front()] = next;
    }
  }
  std::unordered_map<Value, std::vector<WeightUse>, ValueHash> uses;
  const std::vector<bool> live = live_nodes(step);
  for (const Node& node : step.nodes()) {
    if (!live[node.id()] || !has_product(node)) continue;
    const AnchoredNode product(node);
    if (!product.is_product()) continue;
    const Value right = product.stored(1);
    const Value weight = root_of(right);
    if (!next_of.contains(weight) || right.type() != weight.type()) continue;
    const auto use = weight_use(product);
    if (!use) continue;
    auto& found = uses[weight];
    if (std::find(found.begin(), found.end(), *use) == found.end()) found.push_back(*use);
  }
  StateLayouts layouts;
  for (auto& [weight, found] : uses) {
    const PrepackedWeight copies(weight.type(), std::move(found));
    const StateLayout layout{name_of(weight.node()), copies.layout(), copies.bytes()};
    layouts[weight] = layout;
    layouts[next_of.at(weight)] = layout;
  }
  return layouts;
}

}  // namespace keel
