// Filter: the items that a function keeps.
#include <algorithm>

#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/stages.h"
#include "keel/data/pipeline/user_call.h"

namespace keel {
namespace {

constexpr int64_t kSkipBlock = 64;

class FilterStage final : public DerivedStage {
 public:
  FilterStage(StagePtr from, Dataset::Predicate keep, std::string name, CallSite site)
      : DerivedStage(std::move(from)),
        keep_(std::move(keep)),
        name_("filter '" + std::move(name) + "'"),
        site_(site) {}

  std::optional<int64_t> size() const override { return std::nullopt; }
  std::optional<int64_t> dropped_items() const override { return std::nullopt; }
  std::unique_ptr<Reader> open(const DataPass& pass) const override;

  bool keeps(int64_t item, const FieldAddresses& fields) const {
    return call_user(name_, item, site_, [&] {
      std::array<const void*, ItemLayout::kMaxFields> addresses;
      for (size_t f = 0; f < fields.size(); ++f) addresses[f] = fields[f];
      return keep_(ItemView(layout(), {addresses.data(), fields.size()}));
    });
  }

 private:
  Dataset::Predicate keep_;
  std::string name_;
  CallSite site_;
};

class FilteredReader final : public Reader {
 public:
  FilteredReader(const FilterStage& stage, const DataPass& pass)
      : stage_(stage),
        pass_(pass),
        from_(stage.from()->open(pass)),
        spare_(stage.layout(), kSkipBlock) {}

  // Reads as many items as are still wanted to where they would stay, and closes the gaps of those
  // not kept.
  int64_t read(int64_t count, const FieldAddresses& out) override {
    const ItemLayout& layout = stage_.layout();
    const CompleteFields fields(layout, out, count);
    int64_t kept = 0;
    while (kept < count && !pass_.stopped()) {
      const int64_t asked = count - kept;
      const int64_t got = from_->read(asked, fields.all().advanced(layout, kept));
      if (pass_.stopped()) break;
      kept += keep_some(got, fields.all().advanced(layout, kept));
      if (got < asked) break;
    }
    return kept;
  }

  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    while (skipped < count) {
      const int64_t part = std::min(kSkipBlock, count - skipped);
      const int64_t got = read(part, spare_.item(0));
      skipped += got;
      if (got < part) break;
    }
    return skipped;
  }

 private:
  int64_t keep_some(int64_t count, const FieldAddresses& items) {
    const ItemLayout& layout = stage_.layout();
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
      const FieldAddresses item = items.advanced(layout, i);
      if (!stage_.keeps(seen_++, item)) continue;
      if (i != kept) copy_items(layout, item, items.advanced(layout, kept), 1);
      ++kept;
    }
    return kept;
  }

  const FilterStage& stage_;
  DataPass pass_;
  std::unique_ptr<Reader> from_;
  ItemBlock spare_;
  int64_t seen_ = 0;
};

std::unique_ptr<Reader> FilterStage::open(const DataPass& pass) const {
  return std::make_unique<FilteredReader>(*this, pass);
}

}  // namespace

StagePtr make_filter_stage(StagePtr from, Dataset::Predicate keep, std::string name,
                           CallSite site) {
  if (!keep) throw Error({.op = "filter", .argument = "keep", .message = "is empty"});
  return std::make_shared<FilterStage>(std::move(from), std::move(keep), std::move(name), site);
}

}  // namespace keel
