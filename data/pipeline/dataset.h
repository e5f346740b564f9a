// Dataset: a description of where items come from and what is done to them, as a chain of stages. A
// cheap copyable handle to something immutable: every method returns a new Dataset and any number
// of iterators and feeders may work on one.
//
//   auto items = Dataset::from_tensors({{"image", images}, {"y", labels}});
//   auto train = items.shuffle(seed).batch(100).repeat();
//
// An item has one or more named fields of fixed types. What an iterator yields depends on the
// description alone, not on the number of threads. A pass over the data is an epoch; shuffles are
// drawn anew for each.
#ifndef KEEL_DATA_PIPELINE_DATASET_H
#define KEEL_DATA_PIPELINE_DATASET_H

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/device/device.h"
#include "keel/core/device/element_spec.h"
#include "keel/core/queue/element_function.h"
#include "keel/core/tensor/tensor.h"
#include "keel/data/formats/csv.h"
#include "keel/data/formats/labelled_images.h"
#include "keel/data/pipeline/image_augmentation.h"
#include "keel/data/pipeline/item.h"

namespace keel {

class Stage;

// Says what batch does with items left over at the end of a pass.
enum class Tail {
  kDrop,
  // The last batch is filled up with zeros, and every batch gets one more field: mask, bool [size],
  // true for real items.
  kPad,
};

// Names one of several equal parts of each batch: those of one of the ranks that train together.
struct BatchShare {
  int64_t count = 1;
  int64_t index = 0;
};

struct IdxField {
  std::string name;
  std::string path;
  size_t rank = 1;  // that the file must have
};

struct MapOptions {
  std::string name = "map";  // for errors and reports
  // Threads that work on the items of one batch (or of one prefetched block), the reading one
  // included.
  int threads = 1;
};

class KEEL_API Dataset {
 public:
  // ---- sources

  // Item i has row i of each tensor: tensors [n, ...] give fields [...]. The memory is shared, not
  // copied.
  static Dataset from_tensors(const std::vector<std::pair<std::string, Tensor>>& fields,
                              CallSite site = CallSite::here());
  // Fields image [height * width * channels], u8 or f32 as the set's, and label u8 [].
  static Dataset from_images(const LabelledImages& set);
  // Rows of a CSV file, read into memory; see CsvField for which columns become which field.
  static Dataset from_csv(const std::string& path, const std::vector<CsvField>& fields,
                          const CsvOptions& options = {}, CallSite site = CallSite::here());
  // Rows of IDX files (plain or gzip), one file a field, read into memory.
  static Dataset from_idx(const std::vector<IdxField>& fields, CallSite site = CallSite::here());
  // Rows of .npy files, one file a field, read into memory.
  static Dataset from_npy(const std::vector<std::pair<std::string, std::string>>& field_paths,
                          CallSite site = CallSite::here());
  // Writes item `index` and returns true, or returns false where there are no more. Must be a
  // function of the index alone. With a size, items 0 to size - 1 exist, are reached in any order,
  // and the function may be called from several threads at once; without one, in order and one at a
  // time.
  using Generator = std::function<bool(int64_t index, const ItemSlot& out)>;
  static Dataset from_generator(ElementSpec item, Generator generator,
                                std::optional<int64_t> size = {}, CallSite site = CallSite::here());

  // ---- stages that choose and order items

  // A shuffle of the whole pass, for sources whose items can be reached in any order; keyed by
  // fold_key(seed, epoch).
  Dataset shuffle(uint64_t seed, CallSite site = CallSite::here()) const;
  // For every other source: draws each item from `buffer` items read ahead.
  Dataset shuffle_buffered(int64_t buffer, uint64_t seed, CallSite site = CallSite::here()) const;
  Dataset take(int64_t count, CallSite site = CallSite::here()) const;
  Dataset skip(int64_t count, CallSite site = CallSite::here()) const;
  // Items index, index + shards, index + 2 * shards, ...
  Dataset shard(int64_t shards, int64_t index, CallSite site = CallSite::here()) const;
  // All but the last `count` items, and those: training and validation data. Throws Error where
  // either part would be empty, the number of items is not known, or their order changes from pass
  // to pass, which would mix the parts: shuffle behind it.
  std::pair<Dataset, Dataset> split(int64_t count, CallSite site = CallSite::here()) const;
  // `times` passes one after the other, each an epoch of its own; endless without a number. A pass
  // without items ends all of it: with an Error where it is endless; with a number, where the other
  // passes have the same items. They may have others behind map_random, and where items are taken
  // by their place in a shuffle (take, batch, zip); each pass is then tried.
  Dataset repeat(std::optional<int64_t> times = {}, CallSite site = CallSite::here()) const;
  Dataset concatenate(const Dataset& next, CallSite site = CallSite::here()) const;
  // Items side by side, as long as all have one; fields must differ in name. Where they come in
  // order only, a part is asked for no more items than the parts before it gave: a short one that
  // stands first keeps the others from making items that nobody wants.
  static Dataset zip(const std::vector<Dataset>& parts, CallSite site = CallSite::here());
  // `block` items from each in turn; one that has ended is left out.
  static Dataset interleave(const std::vector<Dataset>& parts, int64_t block = 1,
                            CallSite site = CallSite::here());
  // The items for which `keep` is true, which must depend on the item alone.
  using Predicate = std::function<bool(const ItemView& item)>;
  Dataset filter(Predicate keep, std::string name = "filter",
                 CallSite site = CallSite::here()) const;

  // ---- stages that change items

  // The function may be called from several threads at once. What it throws becomes an Error that
  // names the item's index, the map and this line.
  Dataset map(std::shared_ptr<const ElementFunction> function, MapOptions options = {},
              CallSite site = CallSite::here()) const;
  // Writes straight into the memory where the item is wanted: the fast form.
  using ItemFunction = std::function<void(const ItemView& in, const ItemSlot& out)>;
  Dataset map(ElementSpec output, ItemFunction function, MapOptions options = {},
              CallSite site = CallSite::here()) const;
  // The same for a function that draws random numbers: `key` is another one for each item and each
  // pass, and the same for every number of threads and after a resume. Draw with random_bits(key,
  // i), uniform_float and the others of core/base/random.h.
  using RandomItemFunction =
      std::function<void(const ItemView& in, const ItemSlot& out, uint64_t key)>;
  Dataset map_random(ElementSpec output, RandomItemFunction function, uint64_t seed,
                     MapOptions options = {}, CallSite site = CallSite::here()) const;
  // On tensors: the comfortable form. The result's types are found by calling it on the first item.
  using TensorFunction =
      std::function<std::vector<std::pair<std::string, Tensor>>(const std::vector<Tensor>& in)>;
  Dataset map(TensorFunction function, MapOptions options = {},
              CallSite site = CallSite::here()) const;
  // Random changes of the images in one field, drawn anew for each item and pass; see
  // ImageAugmentation. Stands before cache() only where every pass shall see the same changes.
  Dataset augment(const ImageAugmentation& changes, uint64_t seed, MapOptions options = {},
                  CallSite site = CallSite::here()) const;
  // The named fields, in that order.
  Dataset select(const std::vector<std::string>& fields, CallSite site = CallSite::here()) const;
  // `size` items become one: fields [...] become [size, ...].
  Dataset batch(int64_t size, Tail tail = Tail::kDrop, CallSite site = CallSite::here()) const;
  // Takes of batches of share.count * size items the share.index-th `size` each. What is dropped,
  // what a cursor counts and how many there are is that of whole batches, so all shares go alike.
  Dataset batch(int64_t size, BatchShare share, Tail tail = Tail::kDrop,
                CallSite site = CallSite::here()) const;

  // ---- stages that change nothing but speed

  // Keeps the items of the first pass in memory (as they were ordered then) and serves later passes
  // from there; after it the whole pass can be shuffled. Throws Error behind a repeat() without
  // end, of which there is no keeping; a generator that never ends takes memory until there is
  // none.
  Dataset cache(CallSite site = CallSite::here()) const;
  // The same on a device, for a set that is small beside its memory: a feeder uploads the items
  // once, and its queue then carries their numbers only. What it yields is the same, bit for bit,
  // and cursors of either go for the other; that of the end of a pass is the next pass's beginning,
  // also where an iterator does not know how many items there are. Behind it: shuffle, take, skip,
  // shard, batch, repeat, prefetch. In the parts of zip, concatenate and interleave, and for
  // iterators, it is an ordinary cache().
  Dataset cache(const Device& device, CallSite site = CallSite::here()) const;
  // Reads up to `elements` ahead on a thread of its own. Feeders read ahead anyway.
  Dataset prefetch(int64_t elements, CallSite site = CallSite::here()) const;

  // ---- what is known without reading

  const ElementSpec& spec() const noexcept;
  // Elements in one iteration; nothing where that is not known or endless. What is taken of items
  // without end has as many as are taken.
  std::optional<int64_t> size() const;
  // Items that batch drops at the end of each pass, where known.
  std::optional<int64_t> dropped_items() const;

  explicit Dataset(std::shared_ptr<const Stage> stage);
  // Moving copies, so that no dataset is ever without a stage.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  const std::shared_ptr<const Stage>& stage() const noexcept { return stage_; }

 private:
  std::shared_ptr<const Stage> stage_;
};

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_DATASET_H
