// FunctionRef: a callable borrowed for the length of a call; two words, no allocation. Take it as a
// parameter, do not store it: it refers to the caller's callable.
#ifndef KEEL_CORE_BASE_FUNCTION_REF_H
#define KEEL_CORE_BASE_FUNCTION_REF_H

#include <memory>
#include <type_traits>
#include <utility>

namespace keel {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_object_v<std::remove_reference_t<F>> && std::is_invocable_r_v<R, F&, Args...>)
      // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): the first requirement leaves copies out.
      FunctionRef(F&& callable)
  noexcept
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return static_cast<R>((*static_cast<std::add_pointer_t<std::remove_reference_t<F>>>(
              object))(std::forward<Args>(args)...));
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace keel

#endif  // KEEL_CORE_BASE_FUNCTION_REF_H
