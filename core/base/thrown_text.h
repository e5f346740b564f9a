// text_of_thrown: what the exception that is being handled says, to be handed on to whoever does
// not see it. Any thread. Internal to Keel.
#ifndef KEEL_CORE_BASE_THROWN_TEXT_H
#define KEEL_CORE_BASE_THROWN_TEXT_H

#include <exception>
#include <new>
#include <string>

namespace keel {

// Returns `otherwise` where no exception is being handled, one that is no std::exception, or one
// that says that there is no memory, which a copy of its text would need.
inline std::string text_of_thrown(std::string otherwise) {
  if (std::current_exception() == nullptr) return otherwise;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return otherwise;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return otherwise;
  }
}

}  // namespace keel

#endif  // KEEL_CORE_BASE_THROWN_TEXT_H
