#include "cli/bench/page.h"

#include <fmt/core.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/html.h"
#include "cli/base/machine.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

using Maker = Section (*)(const keel::Json& json);
constexpr std::pair<const char*, Maker> kSections[] = {
    {"train", train_section}, {"kernels", kernels_section}, {"loop", loop_section},
    {"feed", feed_section},   {"compile", compile_section}, {"ranks", ranks_section}};

std::string table_of(const Figure& figure) {
  return fmt::format("<details><summary>Table ({} row{})</summary>\n", figure.rows.size(),
                     figure.rows.size() == 1 ? "" : "s") +
         html_table(figure.head, figure.rows) + "</details>\n";
}

std::string section_of(const Section& section) {
  std::string html = "<section>\n" + html_element("h2", section.title) +
                     html_element("p", section.caption) + "<div class=\"figures\">\n";
  for (const Figure& figure : section.figures) {
    html += "<figure>\n" + html_element("h3", figure.title) + html_element("p", figure.caption);
    for (const std::string& plot : figure.plots) html += plot;
    html += table_of(figure) + "</figure>\n";
  }
  return html + "</div>\n</section>\n";
}

// Returns the word as bash reads it back: as it is where that means the same, or else in quotes,
// where what cannot be printed is written by its bytes.
std::string for_shell(const std::string& word) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  const bool is_text = keel::printable(word) == word;
  std::string quoted = is_text ? "'" : "$'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'')
      quoted += is_text ? "'\\''" : "\\'";
    else if (!is_text && c == '\\')
      quoted += "\\\\";
    else if (!is_text && (byte < 0x20 || byte > 0x7e))
      quoted += fmt::format("\\x{:02x}", byte);
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string for_shell(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + for_shell(word);
  return line;
}

std::string facts_of(const keel::Json& machine) {
  std::vector<std::pair<std::string, std::string>> facts = {{"measured", utc_now()},
                                                            {"keel", KEEL_VERSION}};
  const auto add = [&](const char* name, const char* key) {
    if (machine.contains(key)) facts.emplace_back(name, machine[key]);
  };
  const auto add_size = [&](const char* name, const char* key) {
    if (!machine.contains(key)) return;
    const int64_t kib = machine[key];
    facts.emplace_back(name, kib < 1024 ? fmt::format("{} KiB", kib)
                                        : short_number(static_cast<double>(kib) / 1024) + " MiB");
  };
  add("processor", "processor");
  facts.emplace_back("cores", machine["cores"].dump());
  add_size("L1d", "l1d_kib");
  add_size("L2", "l2_kib");
  add_size("L3", "l3_kib");
  if (machine.contains("memory_gib"))
    facts.emplace_back("memory", short_number(machine["memory_gib"]) + " GiB");
  add("system", "system");
  add("compiler", "compiler");
  return html_facts(facts);
}

}  // namespace

std::string us_of(const keel::Json& row, const char* key) {
  return fmt::format("{:.2f}", row[key].get<double>());
}

int colour_of_backend(const std::string& backend) {
  if (backend == "npu") return 1;
  if (backend == "cpu") return 2;
  if (backend == "ref") return 3;
  return 4;  // a plugin's
}

std::string bench_page(const std::string& suite, const keel::Json& result,
                       const std::vector<std::string>& command) {
  std::string body;
  for (const auto& [name, make] : kSections) {
    if (suite == name) body += section_of(make(result));
    if (!result.contains("suites") || !result["suites"].contains(name)) continue;
    const keel::Json& part = result["suites"][name];
    // A suite that measures one model on one backend is there several times.
    if (!part.is_array()) body += section_of(make(part));
    if (part.is_array()) {
      for (const keel::Json& one : part) body += section_of(make(one));
    }
  }
  // Names in it, such as those of folders, may be any bytes.
  return html_page(
      "keel bench " + suite,
      keel::printable_lines(
          html_element(
              "p",
              "Wall time is what this machine took. Device time is what the modelled NPU would "
              "take. They are never on one axis. Only ratios of one run mean anything.") +
          "<pre><code>" + escape_html(for_shell(command)) + "</code></pre>\n" +
          facts_of(describe_machine()) + body));
}

}  // namespace keel_cli
