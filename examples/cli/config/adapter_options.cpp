#include "cli/config/adapter_options.h"

#include <algorithm>
#include <optional>

#include <keel/core/group/group.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/config/adapter_table.h"
#include "cli/train/train_options.h"

namespace keel_cli {
namespace {

// The same error as one of what was typed.
keel::Error typed(const keel::Error& error) {
  keel::ErrorInfo info = error.info();
  info.kind = keel::ErrorKind::kInvalidArgument;
  return keel::Error(std::move(info));
}

void require_type(const keel::JsonView& value, const AdapterOption& option) {
  switch (option.type) {
    case OptionType::kBoolean:
      static_cast<void>(value.boolean());
      return;
    case OptionType::kInteger:
      static_cast<void>(value.integer(option.least, option.most == 0 ? kMostCount : option.most));
      return;
    case OptionType::kNumber:
      static_cast<void>(value.number(static_cast<double>(option.least)));
      return;
    case OptionType::kText:
      static_cast<void>(value.text());
      return;
    case OptionType::kTextOrObject:
      if (!value.json().is_object()) static_cast<void>(value.text());
      return;
    case OptionType::kAny:
      return;
  }
}

void require_choice(const keel::JsonView& value, const AdapterOption& option) {
  if (option.choices == nullptr) return;
  const keel::Json choices = keel::parse_json(option.choices, "the table");
  if (std::find(choices.begin(), choices.end(), value.json()) != choices.end()) return;
  std::string list;
  for (const keel::Json& choice : choices)
    list += (list.empty() ? "one of " : ", ") + keel::write_json(choice);
  throw value.error(list);
}

// Throws for a text that no flag takes, whatever it is about.
void require_word(const keel::JsonView& value) {
  if (!value.json().is_string()) return;
  const auto& text = value.json().get_ref<const std::string&>();
  if (text.empty() || text.find('\0') != std::string::npos)
    throw typed(value.error("a text that is not empty and has no NUL"));
}

bool is_value(const keel::Json& value, const char* text) {
  return text != nullptr && value == keel::parse_json(text, "the table");
}

class Translator {
 public:
  Translator(const keel::Json& document, const std::string& source)
      : document_(document), source_(source), view_(document, source) {}

  AdapterTranslation run() {
    if (!document_.is_object()) throw typed(view_.error("an object with the adapter's options"));
    for (const std::string& name : view_.keys()) check(name);
    for (const AdapterConflict& conflict : adapter_conflicts()) require_one(conflict);
    for (const std::string& name : view_.keys())
      result_.options.push_back(translate(row(name), document_[name]));
    return std::move(result_);
  }

 private:
  static const AdapterOption& row(const std::string& name) {
    const auto options = adapter_options();
    return *std::find_if(options.begin(), options.end(),
                         [&](const AdapterOption& option) { return option.name == name; });
  }

  // An option is known, and its value has the type and the range that the adapter asks for.
  void check(const std::string& name) const {
    std::vector<std::string> known;
    for (const AdapterOption& option : adapter_options()) known.emplace_back(option.name);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw keel::Error({.op = source_,
                         .message = "the adapter has no option '" + name + "'",
                         .fix = keel::did_you_mean(name, known),
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    try {
      require_type(view_[name], row(name));
      require_choice(view_[name], row(name));
    } catch (const keel::Error& error) {
      throw typed(error);
    }
  }

  void require_one(const AdapterConflict& conflict) const {
    const auto first = document_.find(conflict.option), second = document_.find(conflict.other);
    if (first == document_.end() || second == document_.end()) return;
    if (conflict.value != nullptr && !is_value(*second, conflict.value)) return;
    if (first->is_number() && conflict.value != nullptr && *first == 1)
      return;  // one step: no loop
    const auto told = [](const char* name, const keel::Json& value) {
      return std::string(name) + " " + keel::write_json(value);
    };
    throw keel::Error({.op = source_,
                       .message = told(conflict.option, *first) + " does not go with " +
                                  told(conflict.other, *second) + ": " + conflict.why,
                       .fix = "drop one of the two",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }

  bool is_true(const char* option) const {
    return option != nullptr && document_.contains(option) && document_[option] == true;
  }

  static keel::Json flag_value(const AdapterOption& option, const keel::Json& value) {
    if (option.when_true != nullptr) return value == true ? option.when_true : option.when_false;
    const std::string unit = option.unit;
    return unit.empty() ? value : keel::Json(keel::write_json(value) + unit);
  }

  TranslatedOption translate(const AdapterOption& option, const keel::Json& value) {
    TranslatedOption told{option.name, OptionFate::kNoEffect, "", option.why};
    if (option.needs != nullptr && !is_true(option.needs) && !is_true(option.or_needs)) {
      told.why = std::string("it is about ") + option.needs +
                 (option.or_needs == nullptr ? "" : std::string(" or ") + option.or_needs) +
                 ", which is not on";
    } else if (is_value(value, option.harmless)) {
      told.why = option.flag != nullptr && value != true ? "it is off" : "Keel does so anyway";
    } else if (option.flag != nullptr) {
      require_word(view_[option.name]);
      told.fate = OptionFate::kFlag;
      told.flag = option.flag;
      result_.config[option.flag] = flag_value(option, value);
    } else if (option.harmless != nullptr) {
      told.fate = OptionFate::kUnsupported;
    }
    return told;
  }

  const keel::Json& document_;
  const std::string& source_;
  keel::JsonView view_;
  AdapterTranslation result_;
};

}  // namespace

AdapterTranslation translate_adapter_options(const keel::Json& document,
                                             const std::string& source) {
  return Translator(document, source).run();
}

void require_trainable(const AdapterTranslation& translation, const std::string& source) {
  CommandLine line("train", "");
  declare_train_flags(line);
  try {
    line.take(translation.config, source);
    static_cast<void>(read_train_flags(line, *keel::make_local_groups(1).front()));
  } catch (const keel::Error& error) {
    std::string named;
    for (const TranslatedOption& option : translation.options) {
      const std::string flag = "--" + option.flag;
      if (option.fate != OptionFate::kFlag || !names_flag(error.what(), flag)) continue;
      named += (named.empty() ? "" : ", ") + flag + " is " + option.option;
    }
    throw keel::Error(
        {.op = source, .message = error.what(), .fix = named, .kind = error.info().kind});
  }
}

}  // namespace keel_cli
