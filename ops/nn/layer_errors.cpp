#include "keel/ops/nn/layer_errors.h"

namespace keel {

std::string layer_title(const char* layer, const Scope& scope) {
  return scope.path().empty() ? layer : std::string(layer) + " " + scope.path();
}

void refuse_argument(const std::string& layer, const std::string& argument,
                     const std::string& expected, const std::string& got, CallSite site) {
  throw Error({.op = layer, .argument = argument, .expected = expected, .got = got, .site = site});
}

void require_size(const char* layer, const Scope& scope, const char* argument, int64_t size) {
  if (size >= 1) return;
  refuse_argument(layer_title(layer, scope), argument, "at least 1", std::to_string(size),
                  scope.site());
}

void require_float(const char* layer, const Scope& scope, DType dtype) {
  if (is_float(dtype)) return;
  refuse_argument(layer_title(layer, scope), "dtype", "a float dtype", name_of(dtype),
                  scope.site());
}

void require_groups(const char* layer, const Scope& scope, int64_t groups, int64_t in,
                    int64_t out) {
  require_size(layer, scope, "groups", groups);
  if (in % groups == 0 && out % groups == 0) return;
  const std::string channels =
      in == out ? std::to_string(in) : std::to_string(in) + " and " + std::to_string(out);
  refuse_argument(layer_title(layer, scope), "groups", "a number that divides " + channels,
                  std::to_string(groups), scope.site());
}

std::vector<int64_t> height_and_width(const char* layer, const Scope& scope, const char* argument,
                                      std::vector<int64_t> list) {
  if (list.size() == 1) list.push_back(list[0]);
  if (list.size() != 2) {
    refuse_argument(layer_title(layer, scope), argument, "a height and a width",
                    std::to_string(list.size()) + " numbers", scope.site());
  }
  for (const int64_t size : list) require_size(layer, scope, argument, size);
  return list;
}

Value require_input(const std::string& layer, const Operand& x, DType dtype, size_t rank,
                    int64_t axis, int64_t size, CallSite site) {
  const Value input = require_value(x, layer.c_str(), "x", site);
  input.graph().require_open(layer.c_str(), "x", input, site);
  const Type& type = input.type();
  const auto place = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
  if (type.dtype == dtype && type.shape.rank() == rank &&
      (type.shape[place] < 0 || type.shape[place] == size)) {
    return input;
  }
  refuse_argument(layer, "x",
                  std::string(name_of(dtype)) + " of rank " + std::to_string(rank) + " with " +
                      std::to_string(size) + " along axis " + std::to_string(axis),
                  to_string(type), site);
}

}  // namespace keel
