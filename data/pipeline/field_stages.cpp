// Stages that rearrange fields: select some, or put those of several pipelines side by side.
#include <algorithm>
#include <set>

#include "keel/data/pipeline/named_field.h"
#include "keel/data/pipeline/stages.h"

namespace keel {
namespace {

// ---- select

// Which field of the stage before each field is.
using Places = std::vector<size_t>;

FieldAddresses placed(const FieldAddresses& out, const Places& places, size_t fields_before) {
  std::array<void*, ItemLayout::kMaxFields> before{};
  for (size_t f = 0; f < places.size(); ++f) before[places[f]] = out[f];
  return FieldAddresses({before.data(), fields_before});
}

template <class Base, class From>
class SelectedBase : public Base {
 public:
  SelectedBase(std::unique_ptr<From> from, const Places& places, size_t fields_before)
      : from_(std::move(from)), places_(places), fields_before_(fields_before) {}

 protected:
  FieldAddresses where(const FieldAddresses& out) const {
    return placed(out, places_, fields_before_);
  }
  std::unique_ptr<From> from_;

 private:
  const Places& places_;
  size_t fields_before_;
};

class SelectedReader final : public SelectedBase<Reader, Reader> {
 public:
  using SelectedBase::SelectedBase;
  int64_t read(int64_t count, const FieldAddresses& out) override {
    return from_->read(count, where(out));
  }
  int64_t skip(int64_t count) override { return from_->skip(count); }
};

class SelectedIndexedReader final : public SelectedBase<IndexedReader, IndexedReader> {
 public:
  using SelectedBase::SelectedBase;
  int64_t size() const override { return from_->size(); }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    from_->gather(items, where(out));
  }
};

class SelectStage final : public DerivedStage {
 public:
  SelectStage(ElementSpec item, StagePtr from, Places places)
      : DerivedStage(std::move(item), std::move(from)), places_(std::move(places)) {}
  bool indexed() const override { return from()->indexed(); }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override {
    return std::make_unique<SelectedIndexedReader>(from()->open_indexed(pass), places_,
                                                   from()->layout().fields());
  }
  std::unique_ptr<Reader> open(const DataPass& pass) const override {
    if (indexed()) return open_indexed(pass);
    return std::make_unique<SelectedReader>(from()->open(pass), places_, from()->layout().fields());
  }

 private:
  Places places_;
};

// ---- zip

FieldAddresses part_of(const FieldAddresses& out, size_t first, size_t count) {
  return FieldAddresses(out.all().subspan(first, count));
}

class ZippedReader final : public Reader {
 public:
  ZippedReader(std::vector<std::unique_ptr<Reader>> parts, std::vector<size_t> widths)
      : parts_(std::move(parts)), widths_(std::move(widths)) {}
  int64_t read(int64_t count, const FieldAddresses& out) override {
    size_t first = 0;
    return each(count, [&](size_t part, int64_t asked) {
      const int64_t got = parts_[part]->read(asked, part_of(out, first, widths_[part]));
      first += widths_[part];
      return got;
    });
  }
  int64_t skip(int64_t count) override {
    return each(count, [&](size_t part, int64_t asked) { return parts_[part]->skip(asked); });
  }

 private:
  // Parts may be left behind one another at the end only, and after it nothing is read. Behind a
  // part that gives fewer than asked, the others are not asked for more than that.
  template <class Pass>
  int64_t each(int64_t count, Pass pass) {
    if (ended_) return 0;
    int64_t least = count;
    for (size_t part = 0; part < parts_.size() && least > 0; ++part)
      least = std::min(least, pass(part, least));
    ended_ = least < count;
    return least;
  }

  std::vector<std::unique_ptr<Reader>> parts_;
  std::vector<size_t> widths_;
  bool ended_ = false;
};

class ZippedIndexedReader final : public IndexedReader {
 public:
  ZippedIndexedReader(std::vector<std::unique_ptr<IndexedReader>> parts, std::vector<size_t> widths)
      : parts_(std::move(parts)), widths_(std::move(widths)) {
    size_ = parts_[0]->size();
    for (const auto& part : parts_) size_ = std::min(size_, part->size());
  }
  int64_t size() const override { return size_; }
  void gather(std::span<const int64_t> items, const FieldAddresses& out) const override {
    size_t first = 0;
    for (size_t part = 0; part < parts_.size(); ++part) {
      parts_[part]->gather(items, part_of(out, first, widths_[part]));
      first += widths_[part];
    }
  }

 private:
  std::vector<std::unique_ptr<IndexedReader>> parts_;
  std::vector<size_t> widths_;
  int64_t size_ = 0;
};

class ZipStage final : public Stage {
 public:
  ZipStage(ElementSpec item, std::vector<StagePtr> parts)
      : Stage(std::move(item)), parts_(std::move(parts)) {}

  std::optional<int64_t> size() const override {
    std::optional<int64_t> least;
    for (const StagePtr& part : parts_) {
      const auto size = part->size();
      if (!size) return std::nullopt;
      least = std::min(least.value_or(*size), *size);
    }
    return least;
  }
  bool indexed() const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const StagePtr& part) { return part->indexed(); });
  }
  std::unique_ptr<IndexedReader> open_indexed(const DataPass& pass) const override {
    std::vector<std::unique_ptr<IndexedReader>> readers;
    for (const StagePtr& part : parts_) readers.push_back(part->open_indexed(pass));
    return std::make_unique<ZippedIndexedReader>(std::move(readers), widths());
  }
  std::unique_ptr<Reader> open(const DataPass& pass) const override {
    if (indexed()) return open_indexed(pass);
    std::vector<std::unique_ptr<Reader>> readers;
    for (const StagePtr& part : parts_) readers.push_back(part->open(pass));
    return std::make_unique<ZippedReader>(std::move(readers), widths());
  }
  // Cursors count the items of the first part. Where the parts' batches differ, that says how far
  // the others are for the same batch sizes alone, which the key then asks for.
  uint64_t order_key(uint64_t round) const override {
    const uint64_t key = joint_order_key(parts_, round);
    return have_equal_batches(parts_) ? key : fold_batches(key, parts_);
  }
  bool same_items() const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const StagePtr& part) { return passes_alike(*part); });
  }
  bool endless() const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const StagePtr& part) { return part->endless(); });
  }
  int64_t items_per_element() const override { return parts_[0]->items_per_element(); }
  bool pads() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const StagePtr& part) { return part->pads(); });
  }
  std::optional<int64_t> dropped_items() const override { return std::nullopt; }
  int64_t number_of_all(int64_t item) const override { return parts_[0]->number_of_all(item); }

 private:
  std::vector<size_t> widths() const {
    std::vector<size_t> widths;
    for (const StagePtr& part : parts_) widths.push_back(part->layout().fields());
    return widths;
  }

  std::vector<StagePtr> parts_;
};

}  // namespace

StagePtr make_select_stage(StagePtr from, const std::vector<std::string>& fields) {
  const ElementSpec& before = from->layout().spec;
  ElementSpec item;
  Places places;
  for (const std::string& name : fields) {
    const size_t place = place_of_field("select", before, name);
    if (std::find(places.begin(), places.end(), place) != places.end()) {
      throw Error(
          {.op = "select", .argument = "field '" + name + "'", .message = "is named twice"});
    }
    places.push_back(place);
    item.fields.push_back(before.fields[place]);
  }
  return std::make_shared<SelectStage>(std::move(item), std::move(from), std::move(places));
}

StagePtr make_zip_stage(std::vector<StagePtr> parts) {
  ElementSpec item;
  std::set<std::string> names;
  for (const StagePtr& part : parts) {
    for (const FieldSpec& field : part->layout().spec.fields) {
      if (!names.insert(field.name).second) {
        throw Error({.op = "zip", .message = "two of the parts have a field '" + field.name + "'"});
      }
      item.fields.push_back(field);
    }
  }
  return std::make_shared<ZipStage>(std::move(item), std::move(parts));
}

}  // namespace keel
