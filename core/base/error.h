// Error: the one exception type of the library, with the facts a reader needs: which op or call,
// which argument, what was expected, what came, the user's line, and what to do. Thrown while
// building, compiling and at synchronising calls; expected ends (end of data, closed queue, bad
// record) travel as Result instead. A plain value; any thread.
#ifndef KEEL_CORE_BASE_ERROR_H
#define KEEL_CORE_BASE_ERROR_H

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"

namespace keel {

// Tells whether a value is wrong in itself (a flag, an environment variable), or only against data,
// files or at run time. The command line maps the first to exit code 2, the second to 1.
enum class ErrorKind { kInvalidArgument, kFailed };

// Every field may be empty; what() joins those that are not:
//   "matmul: b: expected shape [784, ?], got [783, 10]; transpose it or fix its rows
//   (model.cpp:12)"
struct ErrorInfo {
  std::string op = {};        // op, call, flag or file concerned
  std::string argument = {};  // which of its arguments
  std::string expected = {};
  std::string got = {};
  std::string message = {};  // what happened, where expected/got does not say it
  std::string fix = {};      // what the user can do
  CallSite site = {};
  ErrorKind kind = ErrorKind::kFailed;
};

class KEEL_API Error : public std::exception {
 public:
  explicit Error(ErrorInfo info);
  // A template, so that Error({.op = "a", .message = "b"}) can only mean an ErrorInfo.
  template <class Text>
  requires std::is_convertible_v<const Text&, std::string_view>
  explicit Error(const Text& message)
      : Error(ErrorInfo{.message = std::string(std::string_view(message))}) {}
  Error(const Error&) = default;
  // Moving takes no memory and cannot fail. What is left of the other says nothing.
  Error(Error&&) noexcept = default;
  Error& operator=(const Error&) = default;
  Error& operator=(Error&&) noexcept = default;
  ~Error() override;

  const char* what() const noexcept override { return text_.c_str(); }
  const ErrorInfo& info() const noexcept { return info_; }

  // Returns the same error seen from further out: `context` is put in front of the text ("step 17,
  // task 4 (matmul)").
  Error with_context(const std::string& context) const;
  // Returns the same error with the user's line, if it has none yet.
  Error with_site(CallSite site) const;

 private:
  ErrorInfo info_;
  std::string text_;
};

}  // namespace keel

#endif  // KEEL_CORE_BASE_ERROR_H
