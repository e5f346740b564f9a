#include "keel/ops/exchange/graphdef/file/function_values.h"

#include <charconv>
#include <optional>
#include <unordered_map>

namespace keel::graphdef {
namespace {

using Names = std::vector<const char*>;

// The results of ops that have several of a name each, in their order. All others have one name,
// which may stand for a list of values.
const std::map<std::string, Names>& result_names() {
  static const Names norm{"y", "batch_mean", "batch_variance", "reserve_space_1",
                          "reserve_space_2"};
  static const Names norm3{
      "y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"};
  static const Names norm_gradient{"x_backprop", "scale_backprop", "offset_backprop",
                                   "reserve_space_3", "reserve_space_4"};
  static const Names norm_gradient3{"x_backprop", "scale_backprop", "offset_backprop",
                                    "reserve_space_4", "reserve_space_5"};
  static const Names loss{"loss", "backprop"};
  static const std::map<std::string, Names> names = {
      {"FusedBatchNorm", norm},
      {"FusedBatchNormV2", norm},
      {"FusedBatchNormV3", norm3},
      {"FusedBatchNormGrad", norm_gradient},
      {"FusedBatchNormGradV2", norm_gradient},
      {"FusedBatchNormGradV3", norm_gradient3},
      {"SoftmaxCrossEntropyWithLogits", loss},
      {"SparseSoftmaxCrossEntropyWithLogits", loss},
      {"TopK", {"values", "indices"}},
      {"TopKV2", {"values", "indices"}},
      {"Switch", {"output_false", "output_true"}},
      {"Merge", {"output", "value_index"}},
      {"BroadcastGradientArgs", {"r0", "r1"}},
      {"Unique", {"y", "idx"}},
      {"TensorArrayV3", {"handle", "flow"}},
      {"TensorArrayConcatV3", {"value", "lengths"}},
  };
  return names;
}

// Returns the number of the first value of that name, or nothing where the op is known to have
// none.
std::optional<size_t> first_of(const std::string& op, std::string_view name) {
  const auto entry = result_names().find(op);
  if (entry == result_names().end()) return 0;
  for (size_t i = 0; i < entry->second.size(); ++i)
    if (name == entry->second[i]) return i;
  return std::nullopt;
}

void number(std::string& value, const std::unordered_map<std::string, std::string>& ops) {
  const size_t first = value.find(':');
  if (first == std::string::npos) return;
  const size_t second = value.find(':', first + 1);
  if (second == std::string::npos) return;
  const auto op = ops.find(value.substr(0, first));
  size_t index = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data() + second + 1, end, index);
  if (op == ops.end() || parsed.ptr != end || parsed.ec != std::errc() || index > 1 << 20) return;
  const std::string name = value.substr(first + 1, second - first - 1);
  const std::optional<size_t> numbered = first_of(op->second, name);
  if (numbered) value = op->first + ":" + std::to_string(*numbered + index);
}

}  // namespace

void number_function_values(Body& body) {
  std::unordered_map<std::string, std::string> ops;
  for (const NodeDef& node : body.nodes) ops.emplace(node.name, node.op);
  for (NodeDef& node : body.nodes)
    for (std::string& input : node.inputs) number(input, ops);
  for (std::string& result : body.results) number(result, ops);
}

}  // namespace keel::graphdef
