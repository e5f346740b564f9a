#include "keel/graph/ir/initializer.h"

#include <algorithm>
#include <array>

#include "keel/core/base/error.h"
#include "keel/core/base/random.h"
#include "keel/core/tensor/convert.h"

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
  Tensor result(init.type.dtype, init.type.shape);
  visit_dtype(init.type.dtype, [&]<class T>() {
    constexpr size_t kPiece = 4096;
    std::array<float, kPiece> draws;
    const auto elements = result.data<T>();
    for (size_t done = 0; done < elements.size(); done += kPiece) {
      const size_t count = std::min(kPiece, elements.size() - done);
      if (normal)
        fill_normal(draws.data(), count, key, done);
      else
        fill_uniform(draws.data(), count, key, done);
      for (size_t i = 0; i < count; ++i) {
        const double draw = draws[i];
        elements[done + i] =
            convert_element<T>(normal ? init.a + init.b * draw : init.a + (init.b - init.a) * draw);
      }
    }
  });
  return result;
}

}  // namespace keel
