// Items from tensors in memory.
#include "keel/core/base/gather_rows.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

class TensorReader final : public IndexedReader {
 public:
  TensorReader(const ItemLayout& layout, const std::vector<Tensor>& tensors, int64_t size)
      : layout_(layout), tensors_(tensors), size_(size) {}

  int64_t size() const override { return size_; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    for (size_t f = 0; f < out.size(); ++f) {
      if (out[f] == nullptr) continue;
      gather_rows<int64_t>(static_cast<const std::byte*>(tensors_[f].raw()), layout_.bytes[f],
                           items, static_cast<std::byte*>(out[f]));
    }
  }

  bool locate(std::span<const int64_t> items, FieldAddresses* where) const override {
    for (const int64_t item : items) {
      *where = FieldAddresses();
      for (size_t f = 0; f < tensors_.size(); ++f) {
        // Readers of located items do not write; the address type is that of destinations.
        auto* rows = static_cast<std::byte*>(const_cast<void*>(tensors_[f].raw()));
        where->push_back(rows + static_cast<size_t>(item) * layout_.bytes[f]);
      }
      ++where;
    }
    return true;
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
  std::unique_ptr<IndexedReader> open_indexed(const DataPass&) const override {
    return std::make_unique<TensorReader>(layout(), tensors_, size_);
  }
  uint64_t order_key(uint64_t) const override { return 0; }
  bool in_memory() const override { return true; }

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
