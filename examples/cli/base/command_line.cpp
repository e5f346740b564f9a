#include "cli/base/command_line.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <sstream>
#include <utility>

#include <cxxopts.hpp>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/flag_errors.h"
#include "cli/base/output_files.h"

namespace keel_cli {
namespace {

constexpr const char* kPlugin = "plugin";
constexpr const char* kReadBudget = "read-budget";
constexpr const char* kEnvironment = "environment";  // shows it, wrong values included

[[noreturn]] void fail(const std::string& flag, const std::string& message,
                       const std::string& fix = "") {
  throw keel::Error(
      {.op = flag, .message = message, .fix = fix, .kind = keel::ErrorKind::kInvalidArgument});
}

// The regular expressions of the parser below recurse once a character. Paths, the longest values
// there are, end at 4,096 bytes.
void check_length(const std::string& word) {
  constexpr size_t kLongestName = 64;
  constexpr size_t kLongest = 4096 + kLongestName;
  if (word.size() <= kLongest) return;
  const std::string flag = word.substr(0, std::min(word.find('='), kLongestName));
  fail(flag, "is given " + std::to_string(word.size()) + " bytes, at most " +
                 std::to_string(kLongest) + " are taken");
}

// Returns the words between the commas of a flag's value, each once.
std::vector<std::string> split(const std::string& flag, const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text + ",");
  for (std::string word; std::getline(in, word, ',');) {
    if (word.empty()) fail(flag, "expected values with one comma between them, got '" + text + "'");
    if (std::find(words.begin(), words.end(), word) != words.end())
      fail(flag, "lists '" + word + "' twice");
    words.push_back(word);
  }
  return words;
}

bool is_optional(const std::string& value) { return value.starts_with('['); }

// The parser tells of a word behind one dash letter by letter: this is the whole of it.
std::string typed_word(const std::vector<std::string>& words, const std::string& told,
                       const std::function<bool(const std::string&)>& takes_value) {
  if (told.size() != 2 || told.starts_with("--")) return told;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(told)) return words[i];
    if (takes_value(words[i])) ++i;
  }
  return told;
}

[[noreturn]] void refuse_flag(const std::string& word, const std::vector<std::string>& names) {
  const std::string flag = word.substr(0, word.find('='));
  const bool one_dash = flag.size() > 2 && !flag.starts_with("--");
  fail(flag, "there is no such flag",
       flag == "-h" ? "--help lists the flags"
                    : keel::did_you_mean(one_dash ? "-" + flag : flag, names));
}

// The parser takes "--keep-best=loss" of a flag whose value may be left out, but not
// "--keep-best loss".
std::vector<std::string> with_value_attached(std::vector<std::string> words,
                                             const std::string& flag) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag + "=") fail(flag, "is given without a value");
    if (words[i] != flag || i + 1 == words.size() || words[i + 1].starts_with('-')) continue;
    if (words[i + 1].empty()) fail(flag, "is given without a value");
    words[i] += "=" + words[i + 1];
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return words;
}

// "--quiet=yes", which the parser would complain of without its flag.
void require_no_value(const std::vector<std::string>& words, const std::string& flag) {
  for (const std::string& word : words) {
    if (word.starts_with(flag + "="))
      fail(flag, "takes no value, got '" + word.substr(flag.size() + 1) + "'",
           "give it alone, or leave it out");
  }
}

}  // namespace

std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "|") + name;
  return text;
}

CommandLine::CommandLine(std::string command, std::string summary)
    : command_(std::move(command)), summary_(std::move(summary)) {
  add("help", "", "print this");
  add(kConfigFlag, "FILE.json",
      "flags as a JSON object, {\"NAME\": VALUE}; those on the command line win over it");
  add_repeated(kPlugin, "FILE.so", "a backend from outside of Keel");
  add(kReadBudget, "MIB",
      "memory that a file may take beyond its data (KEEL_READ_BUDGET_MIB, else 256)");
}

void CommandLine::add(const std::string& name, const std::string& value, const std::string& help) {
  flags_.push_back({name, value, help});
}

void CommandLine::add_repeated(const std::string& name, const std::string& value,
                               const std::string& help) {
  flags_.push_back({name, value, help + "; may be given several times", /*repeated=*/true});
}

void CommandLine::add_subject(const std::string& what, const std::string& fix) {
  subject_kind_ = what;
  subject_fix_ = fix;
}

void CommandLine::add_subjects(const std::string& what, const std::string& fix) {
  add_subject(what, fix);
  several_subjects_ = true;
}

void CommandLine::add_command(const std::string& example) { command_example_ = example; }

// Says whether the word is a flag whose value is the next word.
bool CommandLine::takes_value(const std::string& word) const {
  return std::any_of(flags_.begin(), flags_.end(), [&](const DeclaredFlag& flag) {
    return flag_text(flag.name) == word && !flag.value.empty() && !is_optional(flag.value);
  });
}

void CommandLine::parse(const std::vector<std::string>& all_words) {
  auto separator = std::find(all_words.begin(), all_words.end(), "--");
  while (separator != all_words.end() && separator != all_words.begin() &&
         takes_value(*std::prev(separator)))
    separator = std::find(std::next(separator), all_words.end(), "--");
  const std::vector<std::string> words(all_words.begin(), separator);
  for (const std::string& word : words) check_length(word);
  if (separator != all_words.end()) {
    if (command_example_.empty())
      fail("--", "stands before a command, and keel " + command_ + " starts none", "leave it out");
    started_.assign(separator + 1, all_words.end());
  }
  const bool takes_first = !subject_kind_.empty() && !words.empty() && !words[0].starts_with('-');
  if (takes_first) subjects_.push_back(words[0]);
  parse_flags({words.begin() + (takes_first ? 1 : 0), words.end()});
  const bool missing = std::any_of(subjects_.begin(), subjects_.end(),
                                   [](const std::string& subject) { return subject.empty(); });
  if (!subject_kind_.empty() && (subjects_.empty() || missing) && !wants_help())
    fail("keel " + command_, "the " + subject_kind_ + " is missing", subject_fix_);
}

void CommandLine::parse_flags(const std::vector<std::string>& words) {
  cxxopts::Options options("keel " + command_);
  std::vector<std::string> names;
  std::vector<std::string> attached = words;
  for (const DeclaredFlag& flag : flags_) {
    names.push_back(flag_text(flag.name));
    if (is_optional(flag.value)) attached = with_value_attached(std::move(attached), names.back());
    if (flag.value.empty())
      options.add_options()(flag.name, flag.help);
    else if (is_optional(flag.value))
      options.add_options()(flag.name, flag.help,
                            cxxopts::value<std::string>()->implicit_value(""));
    else
      options.add_options()(flag.name, flag.help, cxxopts::value<std::string>());
  }
  options.allow_unrecognised_options();
  std::vector<const char*> arguments = {"keel"};
  for (const std::string& word : attached) arguments.push_back(word.c_str());
  try {
    const auto result = options.parse(static_cast<int>(arguments.size()), arguments.data());
    for (const std::string& word : result.unmatched()) {
      if (word.rfind('-', 0) == 0) {
        const auto has_value = [&](const std::string& typed) { return takes_value(typed); };
        refuse_flag(typed_word(words, word, has_value), names);
      }
      if (!command_example_.empty())
        fail("'" + word + "'", "is not a flag; the command stands behind --",
             "such as: " + command_example_);
      if (subject_kind_.empty()) fail("'" + word + "'", "is not a flag; flags begin with --");
      if (!several_subjects_ && !subjects_.empty())
        fail("'" + word + "'", "is one more " + subject_kind_ + ", behind '" + subjects_[0] + "'",
             "give one at a time; flags begin with --");
      subjects_.push_back(word);
    }
    for (const DeclaredFlag& flag : flags_) {
      if (result.count(flag.name) == 0) continue;
      std::string value;
      if (flag.repeated) continue;
      if (!flag.value.empty()) {
        if (result.count(flag.name) > 1) fail(flag_text(flag.name), "is given more than once");
        value = result[flag.name].as<std::string>();
        if (value.empty() && !is_optional(flag.value))
          fail(flag_text(flag.name), "is given without a value");
      }
      given_.emplace_back(flag.name, value);
    }
    for (const auto& given : result.arguments()) {
      const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                     [&](const DeclaredFlag& f) { return f.name == given.key(); });
      if (flag != flags_.end() && flag->value.empty() && given.value() != "true")
        fail(flag_text(flag->name), "takes no value, got '" + given.value() + "'",
             "give it alone, or leave it out");
      if (flag == flags_.end() || !flag->repeated) continue;
      if (given.value().empty()) fail(flag_text(flag->name), "is given without a value");
      given_.emplace_back(flag->name, given.value());
    }
    if (!wants_help()) read_config();
    // The command must not write over what it reads by them.
    for (const std::string& flag : common_input_flags()) {
      for (const std::string& file : texts(flag)) remember_common_input({flag_text(flag), file});
    }
    // A wrong environment variable is an error before anything is done, also where the flag goes
    // before it.
    if (!wants_help() && !has(kEnvironment)) keel::read_budget();
    if (const auto mib = integer(kReadBudget, 1, kMostCount))
      keel::set_read_budget(static_cast<uint64_t>(*mib) << 20);
    // Before any flag is read: --backend may name what they bring.
    for (const std::string& file : texts(kPlugin)) keel::load_backend_plugin(file, {});
  } catch (const keel::Error&) {
    throw;
  } catch (const std::exception& error) {
    for (const DeclaredFlag& flag : flags_) {
      if (flag.value.empty()) require_no_value(words, flag_text(flag.name));
    }
    fail("keel " + command_, error.what(), "see keel " + command_ + " --help");
  }
}

void CommandLine::read_config() {
  const auto path = text(kConfigFlag);
  if (!path) return;
  config_file_ = *path;
  const keel::Json document =
      in_flag(flag_text(kConfigFlag), [&] { return read_config_file(*path); });
  config_flags_ = take(document, *path);
}

std::vector<std::string> CommandLine::take(const keel::Json& document, const std::string& source) {
  const GivenFlags before = given_;
  std::vector<std::string> taken;
  for (auto& flag : flags_in(document, source, flags_)) {
    const bool given = std::any_of(before.begin(), before.end(),
                                   [&](const auto& other) { return other.first == flag.first; });
    if (given) continue;
    if (taken.empty() || taken.back() != flag.first) taken.push_back(flag.first);
    given_.push_back(std::move(flag));
  }
  return taken;
}

bool CommandLine::has(const std::string& name) const { return text(name).has_value(); }

std::optional<std::string> CommandLine::text(const std::string& name) const {
  for (const auto& [given, value] : given_) {
    if (given == name) return value;
  }
  return std::nullopt;
}

std::vector<std::string> CommandLine::texts(const std::string& name) const {
  std::vector<std::string> values;
  for (const auto& [given, value] : given_) {
    if (given == name) values.push_back(value);
  }
  return values;
}

std::optional<int64_t> CommandLine::integer(const std::string& name, int64_t min,
                                            int64_t max) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return keel::parse_integer(*value, flag_text(name), min, max);
}

std::optional<double> CommandLine::number(const std::string& name, double min, double max) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return keel::parse_number(*value, flag_text(name), min, max);
}

std::optional<std::string> CommandLine::choice(const std::string& name,
                                               const std::vector<std::string>& choices) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return keel::parse_choice(*value, flag_text(name), choices);
}

std::vector<int64_t> CommandLine::integers(const std::string& name, int64_t min, int64_t max,
                                           std::vector<int64_t> none) const {
  const auto value = text(name);
  if (!value) return none;
  std::vector<int64_t> numbers;
  for (const std::string& word : split(flag_text(name), *value)) {
    numbers.push_back(keel::parse_integer(word, flag_text(name), min, max));
  }
  return numbers;
}

std::vector<std::string> CommandLine::choices(const std::string& name,
                                              const std::vector<std::string>& choices,
                                              std::vector<std::string> none) const {
  const auto value = text(name);
  if (!value) return none;
  std::vector<std::string> words = split(flag_text(name), *value);
  for (const std::string& word : words) keel::parse_choice(word, flag_text(name), choices);
  return words;
}

std::string CommandLine::help() const {
  std::string text = "keel " + command_ + ": " + summary_ + "\n";
  for (const DeclaredFlag& flag : flags_) {
    std::string left = "  " + flag_text(flag.name) + (flag.value.empty() ? "" : " " + flag.value);
    left.resize(std::max<size_t>(left.size() + 2, 30), ' ');
    text += left + flag.help + "\n";
  }
  return text;
}

}  // namespace keel_cli
