// The command-line style of the `keel` tool: flags are declared once with their help, values are
// parsed strictly, an unknown flag suggests the nearest. Errors in what was typed are keel::Error
// of kind kInvalidArgument. Every command has --help, --config, --plugin and --read-budget; parsing
// reads the file of --config, loads the plugins and sets the budget.
#ifndef KEEL_EXAMPLES_CLI_BASE_COMMAND_LINE_H
#define KEEL_EXAMPLES_CLI_BASE_COMMAND_LINE_H

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/base/config_file.h"

namespace keel_cli {

// For counts that users give: beyond all that can be done, and far from where products overflow.
inline constexpr int64_t kMostCount = int64_t{1} << 40;

// "a|b|c", for help texts.
std::string alternatives(const std::vector<std::string>& names);

class CommandLine {
 public:
  CommandLine(std::string command, std::string summary);

  // A flag with a value, shown as "--name VALUE"; a switch, where `value` is empty; or a switch
  // that may have a value, "[VALUE]", which is empty where it has none. "A|B" are alternatives,
  // "N,N,..." and "NAME,..." several with commas between them. N, K, RATE and the like
  // (config_file.cpp lists them) stand for numbers, which a file of --config must give as such.
  void add(const std::string& name, const std::string& value, const std::string& help);
  // A flag with a value that may be given several times; the help says so. Read by texts().
  void add_repeated(const std::string& name, const std::string& value, const std::string& help);
  // The word that is no flag, on which the command works: `what` it is ("file"), and `fix`, a
  // command that has it. parse() throws keel::Error where it is missing and no help is wanted.
  void add_subject(const std::string& what, const std::string& fix);
  // The same for a command that works on several: all words that belong to no flag.
  void add_subjects(const std::string& what, const std::string& fix);
  // The words behind "--" are a command that this one starts; `example` is a line with one. Without
  // this a "--" is refused.
  void add_command(const std::string& example);
  const std::vector<std::string>& command() const noexcept { return started_; }
  const std::string& command_example() const noexcept { return command_example_; }
  const std::string& subject() const noexcept { return subjects_.front(); }
  const std::vector<std::string>& subjects() const noexcept { return subjects_; }
  // Throws keel::Error for what was not declared, a missing value, or words that are no flags.
  void parse(const std::vector<std::string>& all_words);

  // Takes the flags that a document gives and that were not given yet; returns their names. Throws
  // what flags_in does.
  std::vector<std::string> take(const keel::Json& document, const std::string& source);
  // Returns the file of --config, empty without it, and the names of the flags that hold as it
  // says.
  const std::string& config_file() const noexcept { return config_file_; }
  const std::vector<std::string>& config_flags() const noexcept { return config_flags_; }

  bool has(const std::string& name) const;
  std::optional<std::string> text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  std::optional<int64_t> integer(const std::string& name, int64_t min,
                                 int64_t max = std::numeric_limits<int64_t>::max()) const;
  std::optional<double> number(const std::string& name, double min, double max) const;
  std::optional<std::string> choice(const std::string& name,
                                    const std::vector<std::string>& choices) const;
  // Several with commas between them, each once; `none` where the flag is not given.
  std::vector<int64_t> integers(const std::string& name, int64_t min, int64_t max,
                                std::vector<int64_t> none) const;
  std::vector<std::string> choices(const std::string& name, const std::vector<std::string>& choices,
                                   std::vector<std::string> none) const;
  bool wants_help() const noexcept { return has("help"); }
  std::string help() const;

 private:
  void read_config();
  bool takes_value(const std::string& word) const;
  void parse_flags(const std::vector<std::string>& words);

  std::string command_;
  std::string summary_;
  std::vector<DeclaredFlag> flags_;
  std::string subject_kind_, subject_fix_;  // empty: the command has none
  bool several_subjects_ = false;
  std::vector<std::string> subjects_;
  std::string command_example_;  // empty: it starts none
  std::vector<std::string> started_;
  GivenFlags given_;
  std::string config_file_;
  std::vector<std::string> config_flags_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_COMMAND_LINE_H
