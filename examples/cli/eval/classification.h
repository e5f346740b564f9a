// Classification: what came of classifying a set of images: counts by class, from the logits, in
// double. A plain value to which batches are added.
#ifndef KEEL_EXAMPLES_CLI_EVAL_CLASSIFICATION_H
#define KEEL_EXAMPLES_CLI_EVAL_CLASSIFICATION_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <keel/core/base/json.h>
#include <keel/keel.h>

namespace keel_cli {

class Classification {
 public:
  // Where there are fewer classes than `top_k`, all count.
  Classification(int64_t classes, int64_t top_k);

  // One image: its logits, and its class. Of equal logits the first is the largest. An image with
  // a logit that is no finite number is found in no class: it is wrong, and left out of the loss
  // and of the confusion.
  void add(std::span<const float> logits, int64_t label);

  int64_t images() const noexcept { return images_; }
  int64_t correct() const noexcept { return correct_; }
  double accuracy() const { return share(correct_); }
  double top_k_accuracy() const { return share(among_first_); }
  // Mean cross entropy; NaN where every image is non-finite.
  double loss() const;
  int64_t non_finite() const noexcept { return non_finite_; }
  // The first of those, counted from 0; REQUIRES that there is one.
  int64_t first_non_finite() const noexcept { return first_non_finite_; }
  int64_t count(int64_t label, int64_t predicted) const;
  // Return the share of a class's images that were found, and the share that is right of the images
  // that were called it. NaN where there is none.
  double recall(int64_t label) const;
  double precision(int64_t predicted) const;

  // Accuracy and loss, the confusion matrix where it fits a terminal, and what is confused most.
  std::string text() const;
  // accuracy, correct, images, loss, non_finite, top_k, top_k_accuracy,
  // confusion[label][predicted], which has a row for each label that there can be, and
  // classes[].{class, images, precision, recall}.
  keel::Json json() const;

 private:
  double share(int64_t count) const {
    return static_cast<double>(count) / static_cast<double>(images_);
  }
  int64_t row_sum(int64_t label) const;
  int64_t column_sum(int64_t predicted) const;
  std::string matrix() const;
  std::string most_confused() const;

  int64_t classes_;
  int64_t labels_;  // classes that images can be of: labels are bytes
  int64_t top_k_;
  int64_t images_ = 0, correct_ = 0, among_first_ = 0;
  int64_t non_finite_ = 0, first_non_finite_ = 0;
  std::vector<int64_t> non_finite_of_;  // by label
  double loss_ = 0;
  std::vector<int64_t> counts_;  // [label, predicted], labels_ rows
};

// exp(logit) / sum of them, in double.
std::vector<double> softmax_of(std::span<const float> logits);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_EVAL_CLASSIFICATION_H
