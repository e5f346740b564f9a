#include "keel/data/pipeline/dataset.h"

#include <cstring>
#include <type_traits>

#include "keel/core/base/checked.h"
#include "keel/core/tensor/npy.h"
#include "keel/data/formats/idx.h"
#include "keel/data/pipeline/block.h"
#include "keel/data/pipeline/image_augmenter.h"
#include "keel/data/pipeline/stages.h"
#include "keel/data/pipeline/user_call.h"

namespace keel {
namespace {

// Makes a stage; what is wrong with it is reported with the user's line.
template <class Make>
Dataset at_site(CallSite site, Make make) {
  try {
    return Dataset(make());
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

void require_count(const char* op, const char* argument, int64_t value, int64_t least) {
  if (value >= least) return;
  throw Error({.op = op,
               .argument = argument,
               .expected = "at least " + std::to_string(least),
               .got = std::to_string(value),
               .kind = ErrorKind::kInvalidArgument});
}

// Function is a Dataset::ItemFunction or a Dataset::RandomItemFunction.
template <class Function>
class ItemFunctionElement final : public ElementFunction {
 public:
  ItemFunctionElement(ElementSpec input, ElementSpec output, Function function)
      : input_(std::move(input)), output_(std::move(output)), function_(std::move(function)) {}
  const ElementSpec& input() const override { return input_.spec; }
  const ElementSpec& output() const override { return output_.spec; }
  bool draws() const override { return kDraws; }
  void apply(std::span<const void* const> in, std::span<void* const> out,
             [[maybe_unused]] uint64_t key) const override {
    if constexpr (kDraws)
      function_(ItemView(input_, in), ItemSlot(output_, out), key);
    else
      function_(ItemView(input_, in), ItemSlot(output_, out));
  }

 private:
  static constexpr bool kDraws = std::is_same_v<Function, Dataset::RandomItemFunction>;

  ItemLayout input_;
  ItemLayout output_;
  Function function_;
};

template <class Function>
std::shared_ptr<const ElementFunction> item_element(const ElementSpec& input, ElementSpec output,
                                                    Function function) {
  if (!function) throw Error({.op = "map", .argument = "function", .message = "is empty"});
  return std::make_shared<ItemFunctionElement<Function>>(input, std::move(output),
                                                         std::move(function));
}

std::vector<Tensor> tensors_from(const ElementSpec& spec, std::span<const void* const> in) {
  std::vector<Tensor> tensors;
  for (size_t f = 0; f < in.size(); ++f) {
    Tensor tensor(spec.fields[f].type.dtype, spec.fields[f].type.shape);
    if (tensor.num_bytes() > 0) std::memcpy(tensor.raw(), in[f], tensor.num_bytes());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

class TensorFunctionElement final : public ElementFunction {
 public:
  TensorFunctionElement(ElementSpec input, ElementSpec output, Dataset::TensorFunction function)
      : input_(std::move(input)), output_(std::move(output)), function_(std::move(function)) {}
  const ElementSpec& input() const override { return input_; }
  const ElementSpec& output() const override { return output_; }
  bool draws() const override { return false; }
  void apply(std::span<const void* const> in, std::span<void* const> out,
             uint64_t /*key*/) const override {
    const auto results = function_(tensors_from(input_, in));
    const ElementSpec got = spec_of(results);
    if (got != output_) {
      throw Error({.message = "expected " + to_string(output_) + " as for the first item, got " +
                              to_string(got)});
    }
    for (size_t f = 0; f < out.size(); ++f) {
      const Tensor& tensor = results[f].second;
      if (tensor.num_bytes() > 0) std::memcpy(out[f], tensor.raw(), tensor.num_bytes());
    }
  }
  static ElementSpec spec_of(const std::vector<std::pair<std::string, Tensor>>& fields) {
    ElementSpec spec;
    for (const auto& [name, tensor] : fields) spec.fields.push_back({name, tensor.type()});
    return spec;
  }

 private:
  ElementSpec input_;
  ElementSpec output_;
  Dataset::TensorFunction function_;
};

// Returns the spec of what the function makes of the first item.
ElementSpec try_on_first_item(const Stage& from, const Dataset::TensorFunction& function,
                              const std::string& name, CallSite site) {
  const std::string op = "map '" + name + "'";
  ItemBlock item(from.layout(), 1);
  if (from.open({})->read(1, item.item(0)) == 0) {
    throw Error({.op = op,
                 .message = "there is no item to find the result's types with",
                 .fix = "use the form of map that is given the output's types"});
  }
  std::vector<const void*> in;
  const FieldAddresses addresses = item.item(0);
  for (void* address : addresses.all()) in.push_back(address);
  return call_user(op, 0, site, [&] {
    return TensorFunctionElement::spec_of(function(tensors_from(from.layout().spec, in)));
  });
}

StagePtr map_elements(const StagePtr& stage, const std::shared_ptr<const ElementFunction>& function,
                      uint64_t seed, const MapOptions& options, CallSite site) {
  return make_under_repeat(stage, [&](const StagePtr& from) {
    return make_map_stage(from, function, seed, options, site);
  });
}

std::vector<StagePtr> stages_of(const char* op, const std::vector<Dataset>& parts) {
  if (parts.empty())
    throw Error({.op = op, .argument = "parts", .expected = "at least one", .got = "none"});
  std::vector<StagePtr> stages;
  for (const Dataset& part : parts) stages.push_back(part.stage());
  return stages;
}

}  // namespace

Dataset::Dataset(std::shared_ptr<const Stage> stage) : stage_(std::move(stage)) {
  if (stage_ != nullptr) return;
  throw Error({.op = "dataset",
               .argument = "stage",
               .expected = "a stage",
               .got = "none",
               .fix = "make datasets with Dataset::from_... and the functions on them"});
}

Dataset Dataset::from_tensors(const std::vector<std::pair<std::string, Tensor>>& fields,
                              CallSite site) {
  return at_site(site, [&] { return make_tensor_stage(fields); });
}

Dataset Dataset::from_images(const LabelledImages& set) {
  return Dataset(make_tensor_stage({{"image", set.images}, {"label", set.labels}}));
}

Dataset Dataset::from_csv(const std::string& path, const std::vector<CsvField>& fields,
                          const CsvOptions& options, CallSite site) {
  return at_site(site, [&] { return make_tensor_stage(read_csv(path, fields, options)); });
}

Dataset Dataset::from_idx(const std::vector<IdxField>& fields, CallSite site) {
  return at_site(site, [&] {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const auto& [name, path, rank] : fields) tensors.emplace_back(name, read_idx(path, rank));
    return make_tensor_stage(tensors);
  });
}

Dataset Dataset::from_npy(const std::vector<std::pair<std::string, std::string>>& field_paths,
                          CallSite site) {
  return at_site(site, [&] {
    std::vector<std::pair<std::string, Tensor>> fields;
    for (const auto& [name, path] : field_paths) fields.emplace_back(name, read_npy(path));
    return make_tensor_stage(fields);
  });
}

Dataset Dataset::from_generator(ElementSpec item, Generator generator, std::optional<int64_t> size,
                                CallSite site) {
  return at_site(site, [&] {
    return make_generator_stage(std::move(item), std::move(generator), size, site);
  });
}

Dataset Dataset::shuffle(uint64_t seed, CallSite site) const {
  return at_site(site, [&] { return make_shuffle_stage(stage_, seed); });
}

Dataset Dataset::shuffle_buffered(int64_t buffer, uint64_t seed, CallSite site) const {
  return at_site(site, [&] { return make_buffered_shuffle_stage(stage_, buffer, seed, site); });
}

Dataset Dataset::take(int64_t count, CallSite site) const {
  return at_site(site, [&] {
    require_count("take", "count", count, 0);
    return make_slice_stage(stage_, 0, 1, count);
  });
}

Dataset Dataset::skip(int64_t count, CallSite site) const {
  return at_site(site, [&] {
    require_count("skip", "count", count, 0);
    return make_slice_stage(stage_, count, 1, std::nullopt);
  });
}

std::pair<Dataset, Dataset> Dataset::split(int64_t count, CallSite site) const {
  const auto fail = [&](const std::string& message, const std::string& fix) {
    throw Error({.op = "split",
                 .message = message,
                 .fix = fix,
                 .site = site,
                 .kind = ErrorKind::kInvalidArgument});
  };
  const std::optional<int64_t> all = size();
  if (!all) fail("the number of items is not known", "cache() them, or use take() and skip()");
  if (stage_->order_key(0) != stage_->order_key(1))
    fail("each pass would be split in another way",
         "shuffle behind the split, or cache() before it");
  if (*all < 2) {
    fail("two parts need two items or more, and there " +
             (*all == 0 ? std::string("are none") : std::string("is 1")),
         "give it more items");
  }
  if (count < 1 || count >= *all) {
    throw Error(
        {.op = "split",
         .argument = "count",
         .expected = "1 to " + std::to_string(*all - 1) + ", of " + std::to_string(*all) + " items",
         .got = std::to_string(count),
         .site = site,
         .kind = ErrorKind::kInvalidArgument});
  }
  return {take(*all - count, site), skip(*all - count, site)};
}

Dataset Dataset::shard(int64_t shards, int64_t index, CallSite site) const {
  return at_site(site, [&] {
    require_count("shard", "shards", shards, 1);
    if (index < 0 || index >= shards) {
      throw Error({.op = "shard",
                   .argument = "index",
                   .expected = "0 to " + std::to_string(shards - 1) + ", of " +
                               std::to_string(shards) + " shards",
                   .got = std::to_string(index),
                   .kind = ErrorKind::kInvalidArgument});
    }
    return make_slice_stage(stage_, index, shards, std::nullopt);
  });
}

Dataset Dataset::repeat(std::optional<int64_t> times, CallSite site) const {
  return at_site(site, [&] {
    if (times) require_count("repeat", "times", *times, 0);
    return make_repeat_stage(stage_, times);
  });
}

Dataset Dataset::concatenate(const Dataset& next, CallSite site) const {
  return at_site(site, [&] { return make_concatenate_stage(stage_, next.stage_); });
}

Dataset Dataset::zip(const std::vector<Dataset>& parts, CallSite site) {
  return at_site(site, [&] { return make_zip_stage(stages_of("zip", parts)); });
}

Dataset Dataset::interleave(const std::vector<Dataset>& parts, int64_t block, CallSite site) {
  return at_site(site,
                 [&] { return make_interleave_stage(stages_of("interleave", parts), block); });
}

Dataset Dataset::filter(Predicate keep, std::string name, CallSite site) const {
  return at_site(site,
                 [&] { return make_filter_stage(stage_, std::move(keep), std::move(name), site); });
}

Dataset Dataset::map(std::shared_ptr<const ElementFunction> function, MapOptions options,
                     CallSite site) const {
  return at_site(site, [&] { return map_elements(stage_, function, 0, options, site); });
}

Dataset Dataset::map(ElementSpec output, ItemFunction function, MapOptions options,
                     CallSite site) const {
  return at_site(site, [&] {
    return map_elements(stage_, item_element(spec(), std::move(output), std::move(function)), 0,
                        options, site);
  });
}

Dataset Dataset::map_random(ElementSpec output, RandomItemFunction function, uint64_t seed,
                            MapOptions options, CallSite site) const {
  return at_site(site, [&] {
    return map_elements(stage_, item_element(spec(), std::move(output), std::move(function)), seed,
                        options, site);
  });
}

Dataset Dataset::augment(const ImageAugmentation& changes, uint64_t seed, MapOptions options,
                         CallSite site) const {
  return at_site(site, [&] {
    ImageAugmenter augmenter(spec(), changes);
    ElementSpec output = augmenter.output();
    RandomItemFunction change = [augmenter = std::move(augmenter)](
                                    const ItemView& in, const ItemSlot& out, uint64_t key) {
      augmenter.apply(in, out, key);
    };
    return map_elements(stage_, item_element(spec(), std::move(output), std::move(change)), seed,
                        options, site);
  });
}

Dataset Dataset::map(TensorFunction function, MapOptions options, CallSite site) const {
  return at_site(site, [&] {
    if (!function) throw Error({.op = "map", .argument = "function", .message = "is empty"});
    ElementSpec output = try_on_first_item(*stage_, function, options.name, site);
    auto element =
        std::make_shared<TensorFunctionElement>(spec(), std::move(output), std::move(function));
    return map_elements(stage_, std::move(element), 0, options, site);
  });
}

Dataset Dataset::select(const std::vector<std::string>& fields, CallSite site) const {
  return at_site(site, [&] {
    return make_under_repeat(stage_,
                             [&](const StagePtr& from) { return make_select_stage(from, fields); });
  });
}

Dataset Dataset::batch(int64_t size, Tail tail, CallSite site) const {
  return at_site(site, [&] { return make_batch_stage(stage_, size, {}, tail); });
}

Dataset Dataset::batch(int64_t size, BatchShare share, Tail tail, CallSite site) const {
  return at_site(site, [&] { return make_batch_stage(stage_, size, share, tail); });
}

Dataset Dataset::cache(CallSite site) const {
  return at_site(site, [&] { return make_cache_stage(stage_, site); });
}

Dataset Dataset::cache(const Device& device, CallSite site) const {
  return at_site(site, [&] { return make_device_cache_stage(stage_, device, site); });
}

Dataset Dataset::prefetch(int64_t elements, CallSite site) const {
  return at_site(site, [&] {
    return make_under_repeat(
        stage_, [&](const StagePtr& from) { return make_prefetch_stage(from, elements, site); });
  });
}

const ElementSpec& Dataset::spec() const noexcept { return stage_->layout().spec; }
std::optional<int64_t> Dataset::size() const { return stage_->size(); }
std::optional<int64_t> Dataset::dropped_items() const { return stage_->dropped_items(); }

}  // namespace keel
