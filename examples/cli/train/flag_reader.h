// FlagReader: flags of `keel train` that a resumed file decides where they are not given. It refers
// to the command line and the file, which must outlive it. One thread.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_FLAG_READER_H
#define KEEL_EXAMPLES_CLI_TRAIN_FLAG_READER_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/model/saved_run.h"

namespace keel_cli {

class FlagReader {
 public:
  FlagReader(const CommandLine& line, const std::optional<SavedRun>& resume)
      : line_(line), resume_(resume) {}

  std::string choice(const std::string& name, const std::vector<std::string>& choices,
                     const std::string& usual) const {
    return *read<std::string>(
        name,
        [&](const std::string& text, const std::string& from) {
          return keel::parse_choice(text, from, choices);
        },
        usual);
  }
  // `parse` returns the text in the form that is saved and compared, or throws.
  template <class Parse>
  std::string text(const std::string& name, Parse parse, const std::string& usual) const {
    return *read<std::string>(name, parse, usual);
  }
  int64_t integer(const std::string& name, int64_t min, int64_t usual) const {
    return *read<int64_t>(
        name,
        [&](const std::string& text, const std::string& from) {
          return keel::parse_integer(text, from, min, kMostCount);
        },
        usual);
  }
  // A flag without a value; the file says 1.
  bool on(const std::string& name) const {
    if (!resume_) return line_.has(name);
    const bool saved = resume_->integer(name, 0, 1, "0") != 0;
    if (saved || !line_.has(name)) return saved;
    throw keel::Error({.op = "--" + name,
                       .message = resume_->path() + " was trained without it",
                       .fix = "drop the flag, or train from the beginning"});
  }
  std::optional<double> number(const std::string& name, double min, double max) const {
    return read<double>(name, [&](const std::string& text, const std::string& from) {
      return keel::parse_number(text, from, min, max);
    });
  }

 private:
  // Returns what the flag says, or the file, or what is usual: a file says nothing of that. The
  // flag must be the same as the file.
  template <class T, class Parse>
  std::optional<T> read(const std::string& name, Parse parse,
                        const std::optional<T>& usual = std::nullopt) const {
    std::optional<T> given, saved = usual;
    if (const auto text = line_.text(name)) given = parse(*text, "--" + name);
    if (!resume_) return given ? given : usual;
    if (const auto text = resume_->find(name)) {
      saved =
          keel::parse_in_file("--resume: " + resume_->path(), [&] { return parse(*text, name); });
    }
    if (!given || given == saved) return saved;
    throw keel::Error(
        {.op = "--" + name,
         .expected =
             (saved && !fmt::format("{}", *saved).empty() ? fmt::format("{}", *saved) : "none") +
             ", as " + resume_->path() + " was trained with",
         .got = fmt::format("{}", *given),
         .fix = "drop the flag, or train from the beginning"});
  }

  const CommandLine& line_;
  const std::optional<SavedRun>& resume_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_FLAG_READER_H
