#include "keel/ops/sums/part_sums.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "keel/graph/ir/emit.h"

namespace keel {
namespace {

Tensor part_of(const Tensor& whole, int64_t part, int64_t parts) {
  Tensor rows(whole.dtype(), whole.shape().with_dim(0, whole.shape()[0] / parts));
  const size_t bytes = rows.num_bytes();
  if (bytes != 0) {
    const auto at = static_cast<size_t>(part) * bytes;
    std::memcpy(rows.raw(), static_cast<const char*>(whole.raw()) + at, bytes);
  }
  return rows;
}

void add_to(Tensor& sum, const Tensor& other) {
  visit_dtype(sum.dtype(), [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) {
      const auto to = sum.data<T>();
      const auto from = other.data<T>();
      for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    }
  });
}

Tensor sum_between(std::vector<Tensor>& sums, size_t begin, size_t end) {
  if (end - begin == 1) return std::move(sums[begin]);
  const size_t middle = begin + (end - begin) / 2;
  Tensor first = sum_between(sums, begin, middle);
  add_to(first, sum_between(sums, middle, end));
  return first;
}

Value sum_between(const Values& values, size_t begin, size_t end, CallSite site) {
  if (end - begin == 1) return values[begin];
  const size_t middle = begin + (end - begin) / 2;
  return emit("add",
              {sum_between(values, begin, middle, site), sum_between(values, middle, end, site)},
              site);
}

}  // namespace

bool has_part_sums(DType dtype) noexcept { return dtype == f32 || dtype == f64; }

void require_part_sums(const InferContext& c, DType result) {
  for (size_t i = 0; i < c.inputs.size(); ++i)
    c.require(i, has_part_sums(result), "f32 or f64, or a product whose sums are");
}

void require_parts(const InferContext& c, int64_t parts, DType result) {
  if (parts == 1) return;
  require_part_sums(c, result);
  if (parts < 1) c.fail("parts", "at least 1", std::to_string(parts));
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Shape& shape = c.inputs[i].shape;
    c.require(i, shape.rank() > 0 && (shape[0] < 0 || shape[0] % parts == 0),
              "a first axis that is a multiple of " + std::to_string(parts) + " parts");
  }
}

void reference_of_parts(const ReferenceContext& c, int64_t parts,
                        const std::function<void(const ReferenceContext&)>& reference) {
  if (parts == 1) return reference(c);
  std::vector<Tensor> sums;
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<Tensor> inputs, outputs;
    for (const Tensor& input : c.inputs) inputs.push_back(part_of(input, part, parts));
    outputs.emplace_back(c.outputs[0].dtype(), c.outputs[0].shape());
    reference({c.op, c.attributes, inputs, outputs});
    sums.push_back(outputs[0]);
  }
  const Tensor sum = sum_between(sums, 0, sums.size());
  if (sum.num_bytes() != 0) std::memcpy(c.outputs[0].raw(), sum.raw(), sum.num_bytes());
}

Value tree_sum(const Values& values, CallSite site) {
  return sum_between(values, 0, values.size(), site);
}

}  // namespace keel
