#include "cli/base/pass_flags.h"

#include <iostream>

#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/text_list.h"

namespace keel_cli {
namespace {

constexpr const char* kFlag = "disable-pass";

keel::Json passes_as_json() {
  keel::Json json;
  for (const keel::Pass& pass : keel::passes()) {
    json["passes"].push_back({{"name", pass.name},
                              {"summary", pass.summary},
                              {"may_be_disabled", pass.may_be_disabled()},
                              {"required", pass.required},
                              {"changes_bits", pass.changes_bits}});
  }
  for (const keel::PassConflict& conflict : keel::pass_conflicts()) {
    json["conflicts"].push_back(
        {{"off", conflict.off}, {"also_off", conflict.also_off}, {"why", conflict.why}});
  }
  return json;
}

}  // namespace

void declare_pass_flag(CommandLine& line) {
  line.add_repeated(kFlag, "NAME", "a compiler pass to switch off: keel info --passes");
}

std::vector<std::string> read_disabled_passes(const CommandLine& line) {
  std::vector<std::string> names = line.texts(kFlag);
  try {
    keel::select_passes(names);
  } catch (const keel::Error& error) {
    keel::ErrorInfo info = error.info();
    info.op = std::string("--") + kFlag;
    info.site = {};
    throw keel::Error(std::move(info));
  }
  return names;
}

void print_passes(bool as_json) {
  if (as_json) {
    std::cout << keel::write_json(passes_as_json(), 2) << "\n";
    return;
  }
  std::cout << "passes, in the order in which they run:\n";
  for (const keel::Pass& pass : keel::passes()) {
    std::cout << fmt::format("  {:<22} {}\n", pass.name, pass.summary);
    std::cout << (pass.may_be_disabled()
                      ? fmt::format("  {:<22} may be switched off; changes {}\n", "",
                                    *pass.changes_bits == '\0' ? "no bit" : pass.changes_bits)
                      : fmt::format("  {:<22} cannot be switched off: {}\n", "", pass.required));
  }
  std::cout << "\nwhat follows when passes are switched off:\n";
  for (const keel::PassConflict& conflict : keel::pass_conflicts()) {
    std::cout << fmt::format("  {}: {} is off, too: {}\n", joined(conflict.off, ", "),
                             conflict.also_off, conflict.why);
  }
}

}  // namespace keel_cli
