#include "cli/base/config_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include <keel/core/base/environment.h>
#include <keel/core/base/file.h>
#include <nlohmann/json.hpp>

#include "cli/base/text_list.h"

namespace keel_cli {
namespace {

constexpr uint64_t kMostConfigBytes = uint64_t{1} << 20;
constexpr uint64_t kMostMemory = uint64_t{64} << 20;

// In the value of a declared flag these words stand for a number.
constexpr std::array<std::string_view, 14> kNumberWords = {
    "N", "K", "X", "D", "S", "T", "RATE", "MIB", "DECAY", "LIMIT", "NORM", "VALUE", "STEPS", "M"};

bool is_number_word(const std::string& word) {
  const bool digits = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  return digits || std::find(kNumberWords.begin(), kNumberWords.end(), word) != kNumberWords.end();
}

// The kind of value that a flag takes, read off its value in the help: "N|auto|TIMEms" is a number
// or a text.
struct Takes {
  explicit Takes(const DeclaredFlag& flag) {
    std::string value = flag.value;
    is_switch = value.empty();
    may_be_left_out = value.starts_with('[');
    const std::string list_of = parts_of(value, ',')[0];
    list =
        !flag.repeated && (value.starts_with(list_of + "," + list_of) || value == list_of + ",...");
    if (list) value = list_of;
    object = value == "JSON";
    for (const std::string& word : parts_of(value, '|')) {
      if (is_number_word(word))
        number = true;
      else
        text = true;
      boolean = boolean || word == "true";
    }
  }

  bool is_switch = false, may_be_left_out = false, list = false, object = false;
  bool number = false, text = false, boolean = false;
};

[[noreturn]] void refuse(const std::string& where, const std::string& message,
                         const std::string& fix = "") {
  throw keel::Error(
      {.op = where, .message = message, .fix = fix, .kind = keel::ErrorKind::kInvalidArgument});
}

[[noreturn]] void refuse_value(const keel::JsonView& value, const std::string& expected) {
  const std::string prefix = value.where() + ": ";
  refuse(value.where(), std::string(value.error(expected).what()).substr(prefix.size()));
}

// Returns a number or a text as the command line would have it; nothing for other types.
std::optional<std::string> word_of(const keel::JsonView& value, const Takes& takes) {
  const keel::Json& json = value.json();
  // 1e2 is 100, which a flag that counts takes, and not 100.0.
  if (takes.number && json.is_number_float()) return keel::format_double(json.get<double>());
  if (takes.number && json.is_number()) return keel::write_json(json);
  if (takes.boolean && json.is_boolean()) return json.get<bool>() ? "true" : "false";
  if (takes.object && json.is_object()) return keel::write_json(json);
  if (!takes.text || !json.is_string()) return std::nullopt;
  const auto& text = json.get_ref<const std::string&>();
  if (text.empty() || text.find('\0') != std::string::npos)
    refuse_value(value, "a text that is not empty and has no NUL");
  return text;
}

std::string expected_of(const Takes& takes) {
  std::string expected = takes.number && takes.text ? "a number or a text"
                         : takes.number             ? "a number"
                                                    : "a text";
  if (takes.boolean) expected = "true or false";
  if (takes.object) expected += " or an object";
  if (takes.may_be_left_out) expected += ", or true for the flag alone";
  return expected;
}

std::string one_word(const keel::JsonView& value, const Takes& takes, const char* also) {
  if (const auto word = word_of(value, takes)) return *word;
  refuse_value(value, expected_of(takes) + also);
}

void add_flag(const keel::JsonView& value, const DeclaredFlag& flag, GivenFlags& given) {
  const Takes takes(flag);
  const keel::Json& json = value.json();
  if (json.is_boolean() && (takes.is_switch || takes.may_be_left_out)) {
    if (json.get<bool>()) given.emplace_back(flag.name, "");
    return;
  }
  if (takes.is_switch) refuse_value(value, "true or false");
  const bool several = flag.repeated || takes.list;
  if (!several || !json.is_array()) {
    given.emplace_back(flag.name, one_word(value, takes, several ? ", or a list of such" : ""));
    return;
  }
  if (value.size() == 0) refuse_value(value, "a list that is not empty");
  std::string joined;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string word = one_word(value[i], takes, "");
    if (flag.repeated) given.emplace_back(flag.name, word);
    joined += (i == 0 ? "" : ",") + word;
  }
  if (takes.list) given.emplace_back(flag.name, joined);
}

// Returns the value of --config among the words; nothing where it is not given.
std::optional<std::string> config_among(const std::vector<std::string>& words) {
  const std::string flag = std::string("--") + kConfigFlag;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(flag + "=")) return words[i].substr(flag.size() + 1);
    if (words[i] == flag && i + 1 < words.size()) return words[i + 1];
  }
  return std::nullopt;
}

}  // namespace

std::string flag_text(const std::string& name) { return (name.size() == 1 ? "-" : "--") + name; }

keel::Json read_config_file(const std::string& path) {
  const std::string text = keel::read_file(path, kMostConfigBytes);
  try {
    return keel::parse_json(text, path, kMostMemory);
  } catch (const keel::Error& error) {
    // Its text is what was typed, as much as a word of the command line.
    keel::ErrorInfo info = error.info();
    info.kind = keel::ErrorKind::kInvalidArgument;
    throw keel::Error(std::move(info));
  }
}

GivenFlags flags_in(const keel::Json& document, const std::string& source,
                    const std::vector<DeclaredFlag>& flags) {
  if (!document.is_object())
    refuse(source,
           std::string("expected an object with names of flags, got ") + document.type_name());
  const keel::JsonView view(document, source);
  GivenFlags given;
  for (const std::string& key : view.keys()) {
    const auto flag = std::find_if(flags.begin(), flags.end(),
                                   [&](const DeclaredFlag& f) { return f.name == key; });
    if (flag == flags.end()) {
      std::vector<std::string> known;
      for (const DeclaredFlag& each : flags) known.push_back(each.name);
      refuse(source, "there is no flag '" + key + "'", keel::did_you_mean(key, known));
    }
    if (key == kConfigFlag || key == "help")
      refuse(source, "'" + key + "' is for the command line alone");
    add_flag(view[key], *flag, given);
  }
  return given;
}

bool names_flag(const std::string& text, const std::string& flag) {
  for (size_t at = 0; (at = text.find(flag, at)) != std::string::npos; ++at) {
    const size_t end = at + flag.size();
    const auto goes_on = [&](size_t place) {
      return std::isalnum(static_cast<unsigned char>(text[place])) != 0 || text[place] == '-';
    };
    const bool begins = at == 0 || !goes_on(at - 1);
    const bool ends = end == text.size() || !goes_on(end);
    if (begins && ends) return true;
  }
  return false;
}

std::string origin_of_flags(const std::string& error, const std::vector<std::string>& words) {
  const auto path = config_among(words);
  if (!path) return "";
  // Behind "--" stand the words of a program that is launched.
  const auto end = std::find(words.begin(), words.end(), "--");
  std::string named;
  try {
    const keel::Json document = read_config_file(*path);
    for (const auto& [key, value] : document.items()) {
      const std::string flag = flag_text(key);
      const std::string attached = key.size() == 1 ? flag : flag + "=";  // "-n2", "--steps=2"
      const bool typed = std::any_of(words.begin(), end, [&](const std::string& word) {
        return word == flag || word.starts_with(attached);
      });
      if (!typed && names_flag(error, flag)) named += (named.empty() ? "" : ", ") + flag;
    }
  } catch (const std::exception&) {
    return "";  // the error is that the file cannot be read
  }
  if (named.empty()) return "";
  return named + (named.find(',') == std::string::npos ? " is from " : " are from ") + *path;
}

}  // namespace keel_cli
