#include "cli/bench/page.h"

#include <fmt/core.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/machine.h"
#include "cli/bench/page_style.h"
#include "cli/bench/plot.h"

namespace keel_cli {
namespace {

using Maker = Section (*)(const keel::Json& json);
constexpr std::pair<const char*, Maker> kSections[] = {{"train", train_section},
                                                       {"kernels", kernels_section},
                                                       {"loop", loop_section},
                                                       {"feed", feed_section},
                                                       {"compile", compile_section}};

std::string tag(const char* name, const std::string& text) {
  return text.empty() ? "" : fmt::format("<{0}>{1}</{0}>\n", name, escape_html(text));
}

std::string table_of(const Figure& figure) {
  std::string html = fmt::format(
      "<details><summary>Table ({} row{})</summary>\n<div class=\"table\"><table>\n<thead><tr>",
      figure.rows.size(), figure.rows.size() == 1 ? "" : "s");
  for (const std::string& cell : figure.head) html += "<th>" + escape_html(cell) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : figure.rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += "<td>" + escape_html(cell) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div></details>\n";
}

std::string section_of(const Section& section) {
  std::string html = "<section>\n" + tag("h2", section.title) + tag("p", section.caption) +
                     "<div class=\"figures\">\n";
  for (const Figure& figure : section.figures) {
    html += "<figure>\n" + tag("h3", figure.title) + tag("p", figure.caption);
    for (const std::string& plot : figure.plots) html += plot;
    html += table_of(figure) + "</figure>\n";
  }
  return html + "</div>\n</section>\n";
}

std::string fact(const char* name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, escape_html(value));
}

std::string facts_of(const keel::Json& machine) {
  std::string html = "<dl>\n" + fact("measured", utc_now()) + fact("keel", KEEL_VERSION);
  const auto add = [&](const char* name, const char* key) {
    if (machine.contains(key)) html += fact(name, machine[key]);
  };
  const auto add_size = [&](const char* name, const char* key) {
    if (!machine.contains(key)) return;
    const int64_t kib = machine[key];
    html += fact(name, kib < 1024 ? fmt::format("{} KiB", kib)
                                  : short_number(static_cast<double>(kib) / 1024) + " MiB");
  };
  add("processor", "processor");
  html += fact("cores", machine["cores"].dump());
  add_size("L1d", "l1d_kib");
  add_size("L2", "l2_kib");
  add_size("L3", "l3_kib");
  if (machine.contains("memory_gib"))
    html += fact("memory", short_number(machine["memory_gib"]) + " GiB");
  add("system", "system");
  add("compiler", "compiler");
  return html + "</dl>\n";
}

}  // namespace

int colour_of_backend(const std::string& backend) {
  if (backend == "npu") return 1;
  if (backend == "cpu") return 2;
  if (backend == "ref") return 3;
  return 4;  // a plugin's
}

std::string bench_page(const std::string& suite, const keel::Json& result,
                       const std::string& command) {
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
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
             "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>keel "
             "bench "
             "{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
             escape_html(suite), kPageStyle) +
         tag("h1", "keel bench " + suite) +
         tag("p",
             "Wall time is what this machine took. Device time is what the modelled NPU would "
             "take. "
             "They are never on one axis. Only ratios of one run mean anything.") +
         "<pre><code>" + escape_html(command) + "</code></pre>\n" + facts_of(describe_machine()) +
         body + "</main>\n</body>\n</html>\n";
}

}  // namespace keel_cli
