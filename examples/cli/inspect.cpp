#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/output_files.h"

namespace keel_cli {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Describes a tensor's elements. Those that are no numbers are counted and left out of the rest.
struct Statistics {
  explicit Statistics(const keel::Tensor& tensor) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const double value = tensor.at(i);
      if (std::isnan(value)) {
        ++nan;
      } else if (std::isinf(value)) {
        ++infinite;
      } else {
        norm = std::hypot(norm, value);
        sum += value;
        scaled_sum += value * kScale;
        min = finite == 0 ? value : std::min(min, value);
        max = finite == 0 ? value : std::max(max, value);
        ++finite;
      }
    }
  }
  double mean() const {
    const auto count = static_cast<double>(finite);
    if (finite == 0) return kNone;
    return std::isfinite(sum) ? sum / count : scaled_sum / count / kScale;
  }

  int64_t finite = 0, nan = 0, infinite = 0;
  double norm = 0, sum = 0, min = kNone, max = kNone;
  // The sum where doubles hold no sum of elements that they hold: no tensor has 2^64 elements.
  static constexpr double kScale = 0x1p-64;
  double scaled_sum = 0;
};

// Returns the least or the greatest element. Doubles round those of i64 beyond 2^53, so that these
// are looked at again.
keel::Json extreme(const keel::Tensor& tensor, const Statistics& of, bool greatest) {
  if (tensor.dtype() != keel::i64 || of.finite == 0) return greatest ? of.max : of.min;
  const auto elements = tensor.data<int64_t>();
  return greatest ? *std::max_element(elements.begin(), elements.end())
                  : *std::min_element(elements.begin(), elements.end());
}

keel::Json to_json(const std::string& name, const keel::Tensor& tensor, const Statistics& of) {
  keel::Json entry;
  entry["name"] = name;
  entry["dtype"] = keel::name_of(tensor.dtype());
  entry["shape"] = keel::Json::array();
  for (size_t axis = 0; axis < tensor.shape().rank(); ++axis)
    entry["shape"].push_back(tensor.shape()[axis]);
  entry["elements"] = tensor.num_elements();
  entry["norm"] = of.norm;
  entry["mean"] = of.mean();
  entry["min"] = extreme(tensor, of, /*greatest=*/false);
  entry["max"] = extreme(tensor, of, /*greatest=*/true);
  entry["nan"] = of.nan;
  entry["inf"] = of.infinite;
  return entry;
}

class Inspection {
 public:
  explicit Inspection(const std::string& path) : path_(path), file_(keel::read_safetensors(path)) {
    for (const auto& [name, tensor] : file_.tensors) {
      rows_.push_back({name, &tensor, Statistics(tensor)});
      elements_ += tensor.num_elements();
      bytes_ += tensor.num_bytes();
      nan_ += rows_.back().statistics.nan;
      infinite_ += rows_.back().statistics.infinite;
    }
  }

  std::string text() const {
    std::string text = fmt::format(
        "{}: {} tensor{}, {} elements, {} bytes, {}\n", keel::printable(path_), rows_.size(),
        rows_.size() == 1 ? "" : "s", elements_, bytes_,
        file_.has_checksums ? "checksums right" : "no checksums: another program wrote it");
    for (const auto& [name, value] : file_.metadata)
      text += fmt::format("  {}: {}\n", keel::printable(name, 80), keel::printable(value, 200));
    size_t width = 4, type_width = 4;
    for (const Row& row : rows_) {
      width = std::max(width, keel::printable(row.name, 80).size());
      type_width = std::max(type_width, to_string(row.tensor->type()).size());
    }
    text += fmt::format("{:<{}}  {:<{}}  {:>11}  {:>11}  {:>11}  {:>11}  {:>5}  {:>5}\n", "name",
                        width, "type", type_width, "norm", "mean", "min", "max", "NaN", "inf");
    for (const Row& row : rows_) {
      const Statistics& s = row.statistics;
      text +=
          fmt::format("{:<{}}  {:<{}}  {:>11.5g}  {:>11.5g}  {:>11.5g}  {:>11.5g}  {:>5}  {:>5}\n",
                      keel::printable(row.name, 80), width, to_string(row.tensor->type()),
                      type_width, s.norm, s.mean(), s.min, s.max, s.nan, s.infinite);
    }
    if (nan_ + infinite_ > 0)
      text += fmt::format("{} NaN and {} infinite elements; the other columns leave them out\n",
                          nan_, infinite_);
    return text;
  }

  keel::Json json() const {
    keel::Json json;
    json["keel_version"] = KEEL_VERSION;
    json["file"] = path_;
    json["checksums"] = file_.has_checksums;
    json["metadata"] = keel::Json::object();
    for (const auto& [name, value] : file_.metadata) json["metadata"][name] = value;
    json["elements"] = elements_;
    json["bytes"] = bytes_;
    json["nan"] = nan_;
    json["inf"] = infinite_;
    json["tensors"] = keel::Json::array();
    for (const Row& row : rows_)
      json["tensors"].push_back(to_json(row.name, *row.tensor, row.statistics));
    return json;
  }

 private:
  struct Row {
    std::string name;
    const keel::Tensor* tensor;
    Statistics statistics;
  };
  std::string path_;
  keel::Safetensors file_;
  std::vector<Row> rows_;  // in name order
  int64_t elements_ = 0, nan_ = 0, infinite_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

int run_inspect(const std::vector<std::string>& words) {
  CommandLine line("inspect", "FILE: what a file of saved states holds, and whether it is sound");
  line.add("json", "FILE", "the same as one JSON object");
  line.add_subject("file", "keel train --save FILE, then keel inspect FILE");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const std::string json = line.text("json").value_or("");
  require_distinct({{"--json", json}}, {{"keel inspect", line.subject()}});
  require_writable("--json", json);
  const Inspection inspection(line.subject());
  std::cout << inspection.text();
  if (!json.empty())
    keel::write_file_atomically(json, keel::write_json(inspection.json(), 2) + "\n");
  return kExitDone;
}

}  // namespace keel_cli
