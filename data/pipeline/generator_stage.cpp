// Items from a function of their index.
#include <mutex>

#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/stages.h"
#include "keel/data/pipeline/user_call.h"

namespace keel {
namespace {

class GeneratorStage final : public Stage {
 public:
  GeneratorStage(ElementSpec item, Dataset::Generator generator, std::optional<int64_t> size,
                 CallSite site)
      : Stage(std::move(item)), generator_(std::move(generator)), size_(size), site_(site) {}

  std::optional<int64_t> size() const override { return size_; }
  bool indexed() const override { return size_.has_value(); }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override;
  std::unique_ptr<Reader> open(const DataPass& pass) const override;
  uint64_t order_key(uint64_t) const override { return 0; }

  bool generate(int64_t index, const FieldAddresses& out) const {
    return call_user("generator", index, site_,
                     [&] { return generator_(index, ItemSlot(layout(), out.all())); });
  }
  // The same for a function that may be called by one thread at a time, whoever reads besides.
  bool generate_alone(int64_t index, const FieldAddresses& out) const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return generate(index, out);
  }
  [[noreturn]] void throw_too_few(int64_t index) const {
    throw_user_error("generator", index, site_,
                     "there is none, but size is " + std::to_string(*size_));
  }

 private:
  Dataset::Generator generator_;
  std::optional<int64_t> size_;
  CallSite site_;
  mutable std::mutex mutex_;
};

class GeneratedIndexedReader final : public IndexedReader {
 public:
  GeneratedIndexedReader(const GeneratorStage& stage, const DataPass& pass, int64_t size)
      : stage_(stage), pass_(pass), size_(size) {}
  int64_t size() const override { return size_; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    const ItemLayout& layout = stage_.layout();
    const CompleteFields fields(layout, out, static_cast<int64_t>(items.size()));
    for (size_t i = 0; i < items.size() && !pass_.stopped(); ++i) {
      if (!stage_.generate(items[i], fields.all().advanced(layout, static_cast<int64_t>(i)))) {
        stage_.throw_too_few(items[i]);
      }
    }
  }

 private:
  const GeneratorStage& stage_;
  DataPass pass_;
  int64_t size_;
};

class GeneratedReader final : public Reader {
 public:
  GeneratedReader(const GeneratorStage& stage, const DataPass& pass)
      : stage_(stage), pass_(pass), spare_(stage.layout(), 1) {}
  int64_t read(int64_t count, const FieldAddresses& out) override {
    const ItemLayout& layout = stage_.layout();
    const CompleteFields fields(layout, out, count);
    return walk(count, [&](int64_t done) { return fields.all().advanced(layout, done); });
  }
  // Calls the function all the same: only it knows where the items end.
  int64_t skip(int64_t count) override {
    return walk(count, [&](int64_t) { return spare_.item(0); });
  }

 private:
  template <class Where>
  int64_t walk(int64_t count, Where where) {
    int64_t done = 0;
    while (done < count && !ended_ && !pass_.stopped()) {
      ended_ = !stage_.generate_alone(next_, where(done));
      if (ended_) break;
      ++next_;
      ++done;
    }
    return done;
  }

  const GeneratorStage& stage_;
  DataPass pass_;
  ItemBlock spare_;
  int64_t next_ = 0;
  bool ended_ = false;
};

std::unique_ptr<IndexedReader> GeneratorStage::open_indexed(const DataPass& pass) const {
  return std::make_unique<GeneratedIndexedReader>(*this, pass, *size_);
}

std::unique_ptr<Reader> GeneratorStage::open(const DataPass& pass) const {
  if (indexed()) return open_indexed(pass);
  return std::make_unique<GeneratedReader>(*this, pass);
}

}  // namespace

StagePtr make_generator_stage(ElementSpec item, Dataset::Generator generator,
                              std::optional<int64_t> size, CallSite site) {
  if (!generator)
    throw Error({.op = "from_generator", .argument = "generator", .message = "is empty"});
  if (size && *size < 0) {
    throw Error({.op = "from_generator",
                 .argument = "size",
                 .expected = "0 or more",
                 .got = std::to_string(*size)});
  }
  return std::make_shared<GeneratorStage>(std::move(item), std::move(generator), size, site);
}

}  // namespace keel
