// Taps: elements of one axis of which a rule makes weighted sums, with which the rules of both
// formats resize. Plain values, and a function that adds nodes to the graph of its operand; one
// thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_TAPS_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_TAPS_H

#include <cstdint>
#include <vector>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"

namespace keel::onnx {

// [taps][results]: the places of the elements, and their weights.
struct Taps {
  std::vector<std::vector<int64_t>> elements;
  std::vector<std::vector<double>> weights;
};

// Returns x with the sums in place of an axis; where the taps are not weighted, the elements of the
// first.
inline Value tapped_along(NodeContext& c, const Value& x, size_t axis, const Taps& taps,
                          bool weighted) {
  Value total;
  const size_t rank = x.shape({}).rank();
  for (size_t k = 0; k < taps.elements.size(); ++k) {
    const auto count = static_cast<int64_t>(taps.elements[k].size());
    const Value places = c.result(Tensor::of<int64_t>({count}, taps.elements[k]));
    const Value part = gather(x, places, static_cast<int64_t>(axis), {});
    if (!weighted) return part;
    const Tensor weights = Tensor::of<double>({count}, taps.weights[k]).cast(x.dtype({}), {});
    const Value share = mul(part, along_axis(c.result(weights), axis, rank), {});
    total = total.valid() ? add(total, share, {}) : share;
  }
  return total;
}

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_TAPS_H
