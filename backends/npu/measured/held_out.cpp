#include "keel/backends/npu/measured/held_out.h"

#include <string_view>

namespace keel::npu {
namespace {

constexpr uint64_t kOneOf = 5;

// FNV-1a.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0xff);  // no text has it, so that "a", "bc" is not "ab", "c"
  }
  void add(int64_t number) { add(std::to_string(number)); }

  void add(const std::vector<MeasuredTensor>& tensors) {
    for (const MeasuredTensor& tensor : tensors) {
      for (const int64_t dim : tensor.dims) add(dim);
      add(tensor.dtype ? name_of(*tensor.dtype) : tensor.dtype_text);
      add(tensor.format);
    }
  }

  // The last bits of the sum alone follow the last bytes too closely.
  uint64_t value() const { return sum_ ^ (sum_ >> 32); }

 private:
  void add_byte(unsigned char byte) { sum_ = (sum_ ^ byte) * 0x100000001b3u; }

  uint64_t sum_ = 0xcbf29ce484222325u;
};

}  // namespace

bool is_held_out(const MeasuredRow& row) {
  Hash hash;
  hash.add(row.type);
  hash.add(row.inputs);
  hash.add(row.outputs);
  return hash.value() % kOneOf == 0;
}

}  // namespace keel::npu
