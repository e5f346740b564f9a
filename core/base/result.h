// Result<T>: a value or the Error that came instead; for ends that are expected (end of data,
// closed queue, bad record). A plain value; any thread.
#ifndef KEEL_CORE_BASE_RESULT_H
#define KEEL_CORE_BASE_RESULT_H

#include <utility>
#include <variant>

#include "keel/core/base/error.h"

namespace keel {

template <class T>
class Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  // Returns the value; throws the error where there is none.
  T& value() & {
    if (!ok()) throw std::get<1>(state_);
    return std::get<0>(state_);
  }
  const T& value() const& {
    if (!ok()) throw std::get<1>(state_);
    return std::get<0>(state_);
  }
  T&& value() && {
    if (!ok()) throw std::get<1>(state_);
    return std::get<0>(std::move(state_));
  }
  // REQUIRES !ok().
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace keel

#endif  // KEEL_CORE_BASE_RESULT_H
