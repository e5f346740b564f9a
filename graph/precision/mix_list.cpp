#include "keel/graph/precision/mix_list.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/json.h"

namespace keel {
namespace {

// Says whether `//` or `/*` stands outside of every string.
bool has_comment(const std::string& text) {
  bool quoted = false;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && quoted) {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == '/' && (text[i + 1] == '/' || text[i + 1] == '*')) {
      return true;
    }
  }
  return false;
}

Json parse_without_comments(const std::string& text, const std::string& source) {
  try {
    return parse_json(text, source);
  } catch (const Error& error) {
    if (!has_comment(text)) throw;
    ErrorInfo info = error.info();
    info.fix = "remove the comments: JSON has none";
    throw Error(std::move(info));
  }
}

class Reader {
 public:
  Reader(const OpTable& ops, std::vector<std::string>& warnings) : ops_(ops), warnings_(warnings) {}

  MixList moves(const JsonView& document) {
    document.require_only({"black-list", "white-list"});
    const Moves black = moves_of(document.find("black-list"));
    const Moves white = moves_of(document.find("white-list"));
    for (const auto& [op, where] : white.added) {
      const auto other = black.added.find(op);
      if (other != black.added.end()) throw twice(other->second, where, op, "on both lists");
    }
    take_away(black, MixClass::kBlack);
    take_away(white, MixClass::kWhite);
    for (const auto& [op, where] : black.added) change(op, MixClass::kBlack);
    for (const auto& [op, where] : white.added) change(op, MixClass::kWhite);
    return std::move(list_);
  }

  MixList whole(const JsonView& document) {
    for (const OpDef* op : ops_.all()) change(op->name, MixClass::kGray);
    for (const std::string& name : document.keys()) {
      const JsonView entry = document[name];
      entry.require_only({"precision_reduce"});
      const MixClass mix = class_in(entry);
      if (known(name, entry.where())) change(name, mix);
    }
    return std::move(list_);
  }

 private:
  // An entry that says nothing of it is of a gray op, as an op without an entry is.
  static MixClass class_in(const JsonView& entry) {
    const auto reduce = entry.find("precision_reduce");
    if (!reduce) return MixClass::kGray;
    reduce->require_only({"flag"});
    const JsonView flag = (*reduce)["flag"];
    if (flag.text() != "true" && flag.text() != "false") throw flag.error("\"true\" or \"false\"");
    return flag.text() == "true" ? MixClass::kWhite : MixClass::kBlack;
  }

  using Places = std::map<std::string, std::string>;  // from op to where it stands in the file
  struct Moves {
    Places added, removed;
  };

  Moves moves_of(const std::optional<JsonView>& list) {
    if (!list) return {};
    list->require_only({"to-add", "to-remove"});
    Moves moves{places_of(list->find("to-add")), places_of(list->find("to-remove"))};
    for (const auto& [op, where] : moves.removed) {
      const auto added = moves.added.find(op);
      if (added != moves.added.end()) throw twice(added->second, where, op, "added and removed");
    }
    return moves;
  }

  Places places_of(const std::optional<JsonView>& array) {
    Places places;
    for (size_t i = 0; array && i < array->size(); ++i) {
      const JsonView entry = (*array)[i];
      const std::string& op = entry.text();
      const auto [it, fresh] = places.emplace(op, entry.where());
      if (!fresh) throw twice(it->second, entry.where(), op, "named twice");
      if (!known(op, entry.where())) places.erase(it);
    }
    return places;
  }

  static Error twice(const std::string& first, const std::string& second, const std::string& op,
                     const std::string& what) {
    return Error({.op = second,
                  .argument = op,
                  .message = "is " + what + ", see " + first,
                  .fix = "name it once",
                  .kind = ErrorKind::kInvalidArgument});
  }

  bool known(const std::string& op, const std::string& where) {
    if (ops_.find(op) != nullptr) return true;
    std::vector<std::string> names;
    for (const OpDef* each : ops_.all()) names.push_back(each->name);
    const std::string hint = did_you_mean(op, names);
    warnings_.push_back(where + ": no op is called '" + op + "'" +
                        (hint.empty() ? "" : "; " + hint));
    return false;
  }

  void take_away(const Moves& moves, MixClass from) {
    for (const auto& [op, where] : moves.removed) {
      if (list_.class_of(ops_.at(op)) == from) {
        change(op, MixClass::kGray);
      } else {
        warnings_.push_back(where + ": " + op + " is not on the " + name_of(from) + " list");
      }
    }
  }

  void change(const std::string& op, MixClass mix) {
    if (ops_.at(op).mix_class == mix)
      list_.changed.erase(op);
    else
      list_.changed[op] = mix;
  }

  const OpTable& ops_;
  std::vector<std::string>& warnings_;
  MixList list_;
};

}  // namespace

const char* name_of(MixClass mix) noexcept {
  static constexpr const char* kNames[] = {"gray", "white", "black"};
  return kNames[static_cast<size_t>(mix)];
}

MixClass MixList::class_of(const OpDef& op) const {
  const auto it = changed.find(op.name);
  return it == changed.end() ? op.mix_class : it->second;
}

MixList parse_mix_list(const std::string& text, const std::string& source, const OpTable& ops,
                       std::vector<std::string>& warnings) {
  const Json document = parse_without_comments(text, source);
  const JsonView view(document, source);
  const std::vector<std::string> keys = view.keys();
  const bool whole = std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    const Json& entry = document[key];
    return entry.is_object() && entry.contains("precision_reduce");
  });
  Reader reader(ops, warnings);
  return whole ? reader.whole(view) : reader.moves(view);
}

std::string write_ops_info(const OpTable& ops, const MixList& list) {
  Json json = Json::object();
  for (const OpDef* op : ops.all()) {
    const MixClass mix = list.class_of(*op);
    if (mix == MixClass::kGray) continue;
    json[op->name]["precision_reduce"]["flag"] = mix == MixClass::kWhite ? "true" : "false";
  }
  return write_json(json, 2) + "\n";
}

}  // namespace keel
