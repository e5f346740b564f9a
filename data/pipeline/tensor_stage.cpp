// Items from tensors in memory.
#include <cstring>

#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

// How many items ahead of the copy memory is asked for, and how much of each.
constexpr size_t kAhead = 8;
constexpr size_t kAheadBytes = 1024;
constexpr size_t kCacheLine = 64;

template <class Word>
void gather_words(const std::byte* from, std::span<const int64_t> items, std::byte* out) {
  for (const int64_t item : items) {
    std::memcpy(out, from + static_cast<size_t>(item) * sizeof(Word), sizeof(Word));
    out += sizeof(Word);
  }
}

void prefetch(const std::byte* from, size_t bytes) {
  for (size_t offset = 0; offset < std::min(bytes, kAheadBytes); offset += kCacheLine)
    __builtin_prefetch(from + offset);
}

void gather_rows(const std::byte* from, size_t bytes, std::span<const int64_t> items,
                 std::byte* out) {
  switch (bytes) {
    case 0:
      return;
    case 1:
      return gather_words<uint8_t>(from, items, out);
    case 2:
      return gather_words<uint16_t>(from, items, out);
    case 4:
      return gather_words<uint32_t>(from, items, out);
    case 8:
      return gather_words<uint64_t>(from, items, out);
    default:
      break;
  }
  const auto row = [&](size_t i) { return from + static_cast<size_t>(items[i]) * bytes; };
  for (size_t i = 0; i < std::min(kAhead, items.size()); ++i) prefetch(row(i), bytes);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i + kAhead < items.size()) prefetch(row(i + kAhead), bytes);
    std::memcpy(out, row(i), bytes);
    out += bytes;
  }
}

class TensorReader final : public IndexedReader {
 public:
  TensorReader(const ItemLayout& layout, const std::vector<Tensor>& tensors, int64_t size)
      : layout_(layout), tensors_(tensors), size_(size) {}

  int64_t size() const override { return size_; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    for (size_t f = 0; f < out.size(); ++f) {
      if (out[f] == nullptr) continue;
      gather_rows(static_cast<const std::byte*>(tensors_[f].raw()), layout_.bytes[f], items,
                  static_cast<std::byte*>(out[f]));
    }
  }

 private:
  const ItemLayout& layout_;
  const std::vector<Tensor>& tensors_;
  int64_t size_;
};

class TensorStage final : public Stage {
 public:
  TensorStage(ElementSpec item, std::vector<Tensor> tensors, int64_t size)
      : Stage(std::move(item)), tensors_(std::move(tensors)), size_(size) {}

  std::optional<int64_t> size() const override { return size_; }
  bool indexed() const override { return true; }
  std::unique_ptr<IndexedReader> open_indexed(const PassContext&) const override {
    return std::make_unique<TensorReader>(layout(), tensors_, size_);
  }
  uint64_t order_key(uint64_t) const override { return 0; }

 private:
  std::vector<Tensor> tensors_;
  int64_t size_;
};

}  // namespace

StagePtr make_tensor_stage(const std::vector<std::pair<std::string, Tensor>>& fields) {
  ElementSpec item;
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : fields) {
    const std::string argument = "tensor '" + name + "'";
    if (tensor.empty() || tensor.shape().rank() == 0) {
      throw Error({.op = "from_tensors",
                   .argument = argument,
                   .expected = "a tensor of rank 1 or more: its rows are the items",
                   .got = tensor.empty() ? "an empty one" : to_string(tensor.type())});
    }
    if (!tensors.empty() && tensor.shape()[0] != tensors[0].shape()[0]) {
      throw Error({.op = "from_tensors",
                   .argument = argument,
                   .expected = std::to_string(tensors[0].shape()[0]) + " rows as in '" +
                               fields[0].first + "'",
                   .got = std::to_string(tensor.shape()[0])});
    }
    item.fields.push_back({name, {tensor.dtype(), tensor.shape().without_dim(0)}});
    tensors.push_back(tensor);
  }
  const int64_t size = tensors.empty() ? 0 : tensors[0].shape()[0];
  return std::make_shared<TensorStage>(std::move(item), std::move(tensors), size);
}

}  // namespace keel
