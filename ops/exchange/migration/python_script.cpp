#include "keel/ops/exchange/migration/python_script.h"

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/ops/exchange/migration/python_bindings.h"
#include "keel/ops/exchange/migration/python_tokens.h"

namespace keel::migration {
namespace {

using Kind = PythonToken::Kind;

class Scanner {
 public:
  Scanner(const std::vector<PythonToken>& tokens, const std::string& source, const ApiTable& table,
          const IsOwnModule& is_own, const AddUse& add)
      : tokens_(tokens),
        table_(table),
        is_own_(is_own),
        add_(add),
        bindings_(tokens, source, table) {}

  void run() {
    auto star = bindings_.stars().begin();
    for (size_t at = 0; at < tokens_.size(); ++at) {
      if (star != bindings_.stars().end() && star->first == at) add_star(*star++);
      const PythonToken& token = tokens_[at];
      if (token.kind == Kind::kOperator) follow_bracket(at);
      if (token.kind != Kind::kName || bindings_.in_import(at)) continue;
      if (is_option_key(at)) add_(token.line, table_.judge_option(tokens_[at + 2].text, {}));
      if (is_option_argument(at)) add_(token.line, table_.judge_option(token.text, open_.back()));
      if (!defines(at)) add_use(at);
    }
  }

 private:
  bool is_foreign(std::string_view qualified) const {
    const std::string_view root = qualified.substr(0, qualified.find('.'));
    return !table_.is_standard(root) && !is_own_(root);
  }

  // Everything of a package without a table: nobody can say which names come from there.
  void add_star(const std::pair<size_t, std::string>& star) {
    const ApiTable::Name name = table_.canonical(star.second);
    if (!name.known && is_foreign(star.second))
      add_(tokens_[star.first].line, table_.judge({name.module, name.text + ".*", false}));
  }

  // parameter_map["iterations_per_loop"]
  bool is_option_key(size_t at) const {
    return at + 3 < tokens_.size() && table_.holds_options(tokens_[at].text) &&
           tokens_[at + 1].is_operator("[") && tokens_[at + 2].kind == Kind::kString &&
           tokens_[at + 3].is_operator("]");
  }

  // A name that is no use of what it is bound to: an attribute, a named argument, a target.
  bool defines(size_t at) const {
    if (tokens_[at + 1].is_operator("=") || tokens_[at + 1].is_operator(":=")) return true;
    if (at == 0) return false;
    const PythonToken& before = tokens_[at - 1];
    return before.is_operator(".") || before.is_name("def") || before.is_name("class") ||
           before.is_name("as");
  }

  // Returns the full name of what a dotted name is, where it comes from another package.
  std::optional<std::string> qualified(const DottedName& name) const {
    if (const ImportedName* imported = bindings_.find(name.first)) {
      const bool is_use = !imported->is_module || !name.attributes.empty();
      if (imported->qualified.empty() || !is_use) return std::nullopt;
      return imported->qualified + name.attributes;
    }
    const std::string_view first = tokens_[name.first].text;
    const std::string* module = starred(first);
    if (module == nullptr) return std::nullopt;
    return *module + "." + std::string(first) + name.attributes;
  }

  // Returns the module that a script has a name from because it imports all that is there, or null.
  const std::string* starred(std::string_view name) const {
    constexpr size_t kMostOfStarredName = 100;
    if (bindings_.stars().empty() || name.size() > kMostOfStarredName) return nullptr;
    const auto place = starred_.emplace(name, nullptr);
    if (!place.second) return place.first->second;
    for (const auto& star : bindings_.stars()) {
      if (!table_.exports(star.second, name)) continue;
      place.first->second = &star.second;
      break;
    }
    return place.first->second;
  }

  void add_use(size_t at) {
    const DottedName dotted = dotted_name(tokens_, at);
    const std::optional<std::string> full = qualified(dotted);
    if (!full) return;
    const ApiTable::Name name = table_.canonical(*full);
    // A module, passed on or asked for its name.
    if (name.known && table_.is_namespace(name.text) && !table_.has_row(name.text)) return;
    if (!name.known && !is_foreign(*full)) return;
    const Finding finding = table_.judge(name);
    add_(tokens_[at].line, finding);
    if (table_.takes_options(finding.name)) {
      options_at_ = dotted.end;
      options_of_ = finding.module;
    }
    if (table_.gives_options(finding.name)) add_member(dotted.end, finding.module);
  }

  // Keeps which brackets are open, and which of them hold the arguments of a call with options.
  void follow_bracket(size_t at) {
    const char sign = tokens_[at].text[0];
    if (sign == '(' || sign == '[' || sign == '{')
      open_.push_back(at == options_at_ ? options_of_ : std::string());
    if (sign == ')' || sign == ']' || sign == '}') open_.pop_back();
  }

  // (..., iterations_per_loop=10, ...)
  bool is_option_argument(size_t at) const {
    return !open_.empty() && !open_.back().empty() && tokens_[at + 1].is_operator("=") &&
           (tokens_[at - 1].is_operator("(") || tokens_[at - 1].is_operator(","));
  }

  // global_options().dump_config.enable_dump: members and theirs, up to a method.
  void add_member(size_t at, const std::string& module) {
    if (!tokens_[at].is_operator("(") || !tokens_[at + 1].is_operator(")")) return;
    for (at += 2; tokens_[at].is_operator(".") && tokens_[at + 1].kind == Kind::kName; at += 2) {
      if (tokens_[at + 2].is_operator("(")) return;
      add_(tokens_[at + 1].line, table_.judge_option(tokens_[at + 1].text, module));
    }
  }

  const std::vector<PythonToken>& tokens_;
  const ApiTable& table_;
  const IsOwnModule& is_own_;
  const AddUse& add_;
  PythonBindings bindings_;
  mutable std::unordered_map<std::string_view, const std::string*> starred_;
  // For each open bracket the module whose options stand in it, or "".
  std::vector<std::string> open_;
  // Where the arguments of the last call with options begin, if it is one (else 0), and its module.
  size_t options_at_ = 0;
  std::string options_of_;
};

}  // namespace

void scan_python(std::string_view text, const std::string& source, const ApiTable& table,
                 const IsOwnModule& is_own, const AddUse& add) {
  const std::vector<PythonToken> tokens = python_tokens(text, source);
  Scanner(tokens, source, table, is_own, add).run();
}

}  // namespace keel::migration
