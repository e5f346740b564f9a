// kWorkOfABlock: multiply-adds that keep a host thread busy for three microseconds; less is not
// worth handing over to another one. Internal to backends/common/products.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_WORK_OF_BLOCK_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_WORK_OF_BLOCK_H

#include <cstdint>

namespace keel {

inline constexpr int64_t kWorkOfABlock = int64_t{1} << 18;

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_WORK_OF_BLOCK_H
