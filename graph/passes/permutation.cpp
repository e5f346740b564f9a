#include "keel/graph/passes/permutation.h"

#include <string>
#include <variant>

namespace keel {

std::optional<Permutation> permutation_of(const Node& node) {
  if (!node.has(kMovement)) return std::nullopt;
  for (const auto& [name, value] : node.attributes().list()) {
    if (name == "perm") return std::get<Permutation>(value);
  }
  return std::nullopt;
}

Permutation composed(const Permutation& inner, const Permutation& outer) {
  Permutation both;
  for (const int64_t axis : outer) both.push_back(inner.at(static_cast<size_t>(axis)));
  return both;
}

bool is_identity(const Permutation& perm) noexcept {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::optional<Shape> shape_before(const Shape& shape, const Permutation& perm) {
  std::vector<int64_t> dims(perm.size(), 1);
  int64_t last = -1;  // the axis before `perm` of the axis with elements that came last
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    const int64_t axis = perm[perm.size() - shape.rank() + i];
    if (axis < last) return std::nullopt;
    last = axis;
    dims[static_cast<size_t>(axis)] = shape[i];
  }
  return Shape(dims);
}

}  // namespace keel
