// Hook: a callable that a loop or a Trainer calls back, which may ask it to stop. Made from any
// callable with the right arguments that returns nothing (go on) or a LoopControl; of an empty
// std::function or a null pointer to a function it is no hook. A plain value; called on the thread
// that runs the loop.
#ifndef KEEL_GRAPH_RUNTIME_HOOK_H
#define KEEL_GRAPH_RUNTIME_HOOK_H

#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

namespace keel {

enum class LoopControl { kContinue, kStop };

template <class... Args>
class Hook {
 public:
  Hook() = default;  // empty: calling it goes on
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Hook> && std::is_invocable_v<F&, Args...>)
      Hook(F function) {
    if (calls_nothing(function)) return;
    call_ = [f = std::move(function)](Args... args) mutable -> LoopControl {
      if constexpr (std::is_void_v<std::invoke_result_t<F&, Args...>>) {
        f(args...);
        return LoopControl::kContinue;
      } else {
        static_assert(std::is_same_v<std::invoke_result_t<F&, Args...>, LoopControl>,
                      "a hook returns nothing or a LoopControl");
        return f(args...);
      }
    };
  }

  explicit operator bool() const noexcept { return static_cast<bool>(call_); }
  LoopControl operator()(Args... args) const {
    return call_ ? call_(args...) : LoopControl::kContinue;
  }

 protected:
  template <class F>
  static bool calls_nothing(const F& function) {
    if constexpr (std::is_constructible_v<F, std::nullptr_t>)
      return function == nullptr;
    else
      return false;
  }

 private:
  std::function<LoopControl(Args...)> call_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_HOOK_H
