#include "keel/graph/ir/initializer.h"

#include "keel/core/base/error.h"
#include "keel/core/base/random.h"

namespace keel {

void require_initializer(const std::string& kind, DType dtype) {
  if (kind == "value" || kind == "constant") return;
  if (kind != "normal" && kind != "uniform") {
    throw Error({.op = "initializer",
                 .argument = "kind",
                 .expected = "constant, normal, uniform or value",
                 .got = "'" + kind + "'"});
  }
  if (is_float(dtype)) return;
  throw Error({.op = "initializer",
               .argument = "dtype",
               .expected = "a float dtype for " + kind,
               .got = name_of(dtype)});
}

Tensor initial_value(const Initializer& init, uint64_t key) {
  require_initializer(init.kind, init.type.dtype);
  if (init.kind == "value") return init.value.clone();
  if (init.kind == "constant") return Tensor::full(init.type.dtype, init.type.shape, init.a);
  const bool normal = init.kind == "normal";
  Tensor raw(f32, init.type.shape);
  const auto data = raw.data<float>();
  if (normal)
    fill_normal(data.data(), data.size(), key, 0);
  else
    fill_uniform(data.data(), data.size(), key, 0);
  Tensor result(init.type.dtype, init.type.shape);
  for (int64_t i = 0; i < raw.num_elements(); ++i) {
    const double draw = data[static_cast<size_t>(i)];
    result.set(i, normal ? init.a + init.b * draw : init.a + (init.b - init.a) * draw);
  }
  return result;
}

}  // namespace keel
