// ElementFunction: a function from one element to another, as Dataset::map calls it. graph
// implements it for graphs, data for C++ callables. Immutable; apply may be called from several
// threads at once.
#ifndef KEEL_CORE_QUEUE_ELEMENT_FUNCTION_H
#define KEEL_CORE_QUEUE_ELEMENT_FUNCTION_H

#include <cstdint>
#include <span>

#include "keel/core/device/element_spec.h"

namespace keel {

class KEEL_API ElementFunction {
 public:
  virtual ~ElementFunction();
  virtual const ElementSpec& input() const = 0;
  virtual const ElementSpec& output() const = 0;
  // Says whether apply() draws random numbers by its key. Keys are made for such functions only:
  // one costs as much as four random numbers.
  virtual bool draws() const = 0;
  // Reads one element of `input` and writes one of `output`: an address for each field, in the
  // spec's order, of host memory that is aligned for the dtype. What it writes depends on what it
  // reads and on `key` alone, which is another one for each element and each pass over the data
  // where the function draws(), and 0 elsewhere. Throws what goes wrong.
  virtual void apply(std::span<const void* const> in, std::span<void* const> out,
                     uint64_t key) const = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_QUEUE_ELEMENT_FUNCTION_H
