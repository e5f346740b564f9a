#include "keel/backends/common/vector/product_kernels.h"

#include <algorithm>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel::vector {
namespace {

constexpr const char* kShapeNames[kShapeClasses] = {"square", "rows", "columns", "vector", "small"};
constexpr const char* kKernelNames[] = {"f32", "widening", "pairs", "tiles"};

std::vector<std::string> shape_names() { return {std::begin(kShapeNames), std::end(kShapeNames)}; }

std::vector<std::string> kernel_names(HostIsa isa) {
  std::vector<std::string> names;
  for (const ProductKernel kernel : product_kernels_of(isa)) names.emplace_back(name_of(kernel));
  return names;
}

}  // namespace

const char* name_of(ShapeClass shape) noexcept { return kShapeNames[static_cast<size_t>(shape)]; }

const char* name_of(ProductKernel kernel) noexcept {
  return kKernelNames[static_cast<size_t>(kernel)];
}

std::vector<ProductKernel> product_kernels_of(HostIsa isa) {
  std::vector<ProductKernel> kernels;
  if (isa == HostIsa::kAmx) kernels.push_back(ProductKernel::kTiles);
  if (isa == HostIsa::kAvx512Bf16 || (isa == HostIsa::kAmx && has_bf16_dot_products())) {
    kernels.push_back(ProductKernel::kPairs);
  }
  kernels.push_back(ProductKernel::kWidening);
  return kernels;
}

ProductKernels own_product_kernels(HostIsa isa) {
  ProductKernels own;
  own.bf16.fill(isa == HostIsa::kAmx          ? ProductKernel::kTiles
                : isa == HostIsa::kAvx512Bf16 ? ProductKernel::kPairs
                                              : ProductKernel::kWidening);
  return own;
}

ProductKernels parse_product_kernels(HostIsa isa, std::string_view list, const std::string& what) {
  ProductKernels kernels = own_product_kernels(isa);
  const std::vector<std::string> shapes = shape_names(), names = kernel_names(isa);
  std::array<bool, kShapeClasses> named = {};
  for (bool last = false; !last;) {
    const size_t comma = list.find(',');
    const std::string_view item = list.substr(0, comma);
    last = comma == std::string_view::npos;
    list.remove_prefix(last ? list.size() : comma + 1);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw Error({.op = what,
                   .expected = "CLASS=KERNEL behind the colon, and more of them behind commas",
                   .got = "'" + std::string(item) + "'",
                   .kind = ErrorKind::kInvalidArgument});
    }
    const std::string shape = parse_choice(item.substr(0, equals), what, shapes);
    const std::string kernel = parse_choice(item.substr(equals + 1), what, names);
    const auto at =
        static_cast<size_t>(std::find(shapes.begin(), shapes.end(), shape) - shapes.begin());
    if (named[at]) {
      throw Error({.op = what,
                   .expected = "each class once",
                   .got = "'" + shape + "' twice",
                   .kind = ErrorKind::kInvalidArgument});
    }
    named[at] = true;
    kernels.bf16[at] = product_kernels_of(
        isa)[static_cast<size_t>(std::find(names.begin(), names.end(), kernel) - names.begin())];
  }
  return kernels;
}

std::string name_of(HostIsa isa, const ProductKernels& kernels) {
  const ProductKernels own = own_product_kernels(isa);
  std::string name = name_of(isa);
  char separator = ':';
  for (const ShapeClass shape : kAllShapeClasses) {
    if (kernels.of(shape) == own.of(shape)) continue;
    name += separator + std::string(name_of(shape)) + "=" + name_of(kernels.of(shape));
    separator = ',';
  }
  return name;
}

}  // namespace keel::vector
