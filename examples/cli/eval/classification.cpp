#include "cli/eval/classification.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace keel_cli {
namespace {

constexpr int64_t kMostInATerminal = 20;  // classes of a matrix
constexpr size_t kMostPairs = 5;
// A model may have more classes, but no image is of one that a byte cannot name.
constexpr int64_t kMostLabels = 256;

// log(sum of exp(logit)) - logit[at]. The largest logit is left out of the logarithm, which is lost
// beside it where it is far from 0.
double cross_entropy(std::span<const float> logits, size_t at) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + (largest - logits[at]);
}

double ratio(int64_t part, int64_t whole) {
  if (whole == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.1f}", share * 100);
}

}  // namespace

std::vector<double> softmax_of(std::span<const float> logits) {
  std::vector<double> shares;
  for (size_t c = 0; c < logits.size(); ++c) shares.push_back(std::exp(-cross_entropy(logits, c)));
  return shares;
}

Classification::Classification(int64_t classes, int64_t top_k)
    : classes_(classes),
      labels_(std::min(classes, kMostLabels)),
      top_k_(std::min(top_k, classes)),
      non_finite_of_(static_cast<size_t>(labels_), 0),
      counts_(static_cast<size_t>(labels_ * classes), 0) {}

void Classification::add(std::span<const float> logits, int64_t label) {
  const auto at = static_cast<size_t>(label);
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    if (non_finite_++ == 0) first_non_finite_ = images_;
    ++non_finite_of_[at];
    ++images_;
    return;
  }
  const auto predicted = std::max_element(logits.begin(), logits.end()) - logits.begin();
  int64_t before = 0;  // the label, in descending order
  for (size_t c = 0; c < logits.size(); ++c)
    before += logits[c] > logits[at] || (logits[c] == logits[at] && c < at);
  ++images_;
  correct_ += predicted == label;
  among_first_ += before < top_k_;
  loss_ += cross_entropy(logits, at);
  ++counts_[static_cast<size_t>(label * classes_ + predicted)];
}

double Classification::loss() const {
  const int64_t finite = images_ - non_finite_;
  return finite == 0 ? std::numeric_limits<double>::quiet_NaN()
                     : loss_ / static_cast<double>(finite);
}

int64_t Classification::count(int64_t label, int64_t predicted) const {
  if (label >= labels_) return 0;
  return counts_[static_cast<size_t>(label * classes_ + predicted)];
}

int64_t Classification::row_sum(int64_t label) const {
  if (label >= labels_) return 0;
  int64_t sum = non_finite_of_[static_cast<size_t>(label)];
  for (int64_t c = 0; c < classes_; ++c) sum += count(label, c);
  return sum;
}

int64_t Classification::column_sum(int64_t predicted) const {
  int64_t sum = 0;
  for (int64_t label = 0; label < labels_; ++label) sum += count(label, predicted);
  return sum;
}

double Classification::recall(int64_t label) const {
  return ratio(count(label, label), row_sum(label));
}

double Classification::precision(int64_t predicted) const {
  return ratio(count(predicted, predicted), column_sum(predicted));
}

std::string Classification::matrix() const {
  if (classes_ > kMostInATerminal) {
    return fmt::format("confusion: {} classes are more than fit here; --json FILE has them all\n",
                       classes_);
  }
  const int64_t most = *std::max_element(counts_.begin(), counts_.end());
  constexpr size_t kPercent = 5;  // "100.0"
  const auto width = std::max(std::to_string(most).size(), kPercent) + 1;
  std::string text =
      "confusion, rows: the class, columns: what it was taken for\n" + fmt::format("{:>5} ", "");
  for (int64_t c = 0; c < classes_; ++c) text += fmt::format("{:>{}}", c, width);
  text += fmt::format("{:>10}\n", "found %");
  for (int64_t label = 0; label < classes_; ++label) {
    text += fmt::format("{:>5} ", label);
    for (int64_t c = 0; c < classes_; ++c) {
      const int64_t n = count(label, c);
      text += fmt::format("{:>{}}", n == 0 ? "." : std::to_string(n), width);
    }
    text += fmt::format("{:>10}\n", percent(recall(label)));
  }
  text += fmt::format("{:>5} ", "right");
  for (int64_t c = 0; c < classes_; ++c)
    text += fmt::format("{:>{}}", percent(precision(c)), width);
  return text + " %\n";
}

std::string Classification::most_confused() const {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> pairs;  // -count, label, predicted
  for (int64_t label = 0; label < labels_; ++label) {
    for (int64_t c = 0; c < classes_; ++c) {
      if (c != label && count(label, c) > 0) pairs.emplace_back(-count(label, c), label, c);
    }
  }
  if (pairs.empty()) return non_finite_ == 0 ? "nothing is confused\n" : "";
  std::sort(pairs.begin(), pairs.end());
  std::string text;
  for (size_t i = 0; i < std::min(pairs.size(), kMostPairs); ++i) {
    const auto& [count, label, predicted] = pairs[i];
    text += fmt::format("{}{} for {} ({})", i == 0 ? "most often taken wrongly: " : ", ", label,
                        predicted, -count);
  }
  return text + "\n";
}

std::string Classification::text() const {
  return fmt::format("accuracy {:.4f} ({} of {}), top-{} {:.4f}, loss {:.4f}\n", accuracy(),
                     correct_, images_, top_k_, top_k_accuracy(), loss()) +
         matrix() + most_confused();
}

keel::Json Classification::json() const {
  keel::Json json;
  json["images"] = images_;
  json["correct"] = correct_;
  json["non_finite"] = non_finite_;
  json["accuracy"] = accuracy();
  json["top_k"] = top_k_;
  json["top_k_accuracy"] = top_k_accuracy();
  json["loss"] = loss();
  json["confusion"] = keel::Json::array();
  json["classes"] = keel::Json::array();
  for (int64_t label = 0; label < classes_; ++label) {
    if (label < labels_) {
      keel::Json row = keel::Json::array();
      for (int64_t c = 0; c < classes_; ++c) row.push_back(count(label, c));
      json["confusion"].push_back(std::move(row));
    }
    keel::Json entry;
    entry["class"] = label;
    entry["images"] = row_sum(label);
    entry["recall"] = recall(label);
    entry["precision"] = precision(label);
    json["classes"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace keel_cli
