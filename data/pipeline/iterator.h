// DatasetIterator: walks the elements of a Dataset. Its cursor names the place right behind the
// last element; an iterator of the same Dataset restored to it, in this or another process, yields
// exactly the rest.
//
// In a cursor, epoch counts the passes of a repeat that ends the chain (0 without one), position
// the items that went into the elements of this pass (so that a cursor survives another batch
// size), and key is that of shuffles, interleavings and joined batches (data/README.md). Used by
// one thread.
#ifndef KEEL_DATA_PIPELINE_ITERATOR_H
#define KEEL_DATA_PIPELINE_ITERATOR_H

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "keel/data/pipeline/dataset.h"

namespace keel {

class KEEL_API DatasetIterator {
 public:
  // `stop`, where given, ends the iteration soon after it is raised.
  explicit DatasetIterator(const Dataset& dataset, const std::atomic<bool>* stop = nullptr);
  ~DatasetIterator();
  DatasetIterator(DatasetIterator&&) noexcept;
  DatasetIterator& operator=(DatasetIterator&&) noexcept;

  // The next element, as one tensor a field; nothing at the end. Throws Error where the pipeline
  // fails.
  std::optional<std::vector<Tensor>> next();
  // The same written to memory, an address for each field of the spec; false at the end.
  bool next_into(std::span<void* const> fields);

  Cursor cursor() const;
  // Throws Error where the cursor cannot come from this Dataset: another shuffle or interleaving,
  // no boundary of a batch, beyond the end. Where nobody knows how many items there are, the next
  // call of next() throws it for a place beyond the end. Where batches are filled up, such a place
  // is the end of the pass.
  void restore(const Cursor& cursor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_ITERATOR_H
