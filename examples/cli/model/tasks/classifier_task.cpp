#include <map>
#include <utility>

#include <fmt/core.h>

#include "cli/base/run_flags.h"
#include "cli/model/saved_model.h"
#include "cli/model/saved_run.h"
#include "cli/model/table_columns.h"
#include "cli/model/task.h"

namespace keel_cli {
namespace {

// A classifier of images or of the rows of a table.
class ClassifierTask final : public TrainTask {
 public:
  ClassifierTask(std::shared_ptr<const ChosenModel> model, const std::string& data,
                 const std::string& label)
      : model_(std::move(model)),
        data_(load_data(data, label)),
        format_(model_->fitted(format_of(data_.train))) {
    add_columns(data, label, columns_);
  }

  std::string origin() const override { return data_.origin; }
  std::string items() const override { return "images"; }
  keel::Dataset training_items() const override { return keel::Dataset::from_images(data_.train); }
  keel::Dataset test_items() const override { return keel::Dataset::from_images(data_.test); }
  // Rows of a table are images, too, where load_labelled_csv took them for squares of pixels.
  keel::Shape image_shape() const override {
    const keel::LabelledImages& set = data_.train;
    return set.height > 1 ? keel::Shape{set.height, set.width, set.channels} : keel::Shape{};
  }
  std::string data_sha256() const override { return keel_cli::data_sha256(data_.train); }
  std::string test_sha256() const override { return keel_cli::data_sha256(data_.test); }

  TrainedModel build(keel::Graph& graph) const override {
    return trained(model_->model.build(graph, format_));
  }
  TrainedModel build_with_own_update(keel::Graph& graph) const override {
    if (!model_->with_own_update) return build(graph);
    return trained(model_->with_own_update(graph, format_));
  }
  void add_metadata(std::map<std::string, std::string>& metadata) const override {
    SavedModel::add_format(format_, metadata);
    metadata.insert(columns_.begin(), columns_.end());
  }
  const std::map<std::string, keel::Tensor>& weights() const override { return model_->weights; }

  std::string describe(const Scores& scores, int64_t top_k) const override {
    return fmt::format("accuracy {:.4f}, top-{} {:.4f}, loss {:.4f}", scores.accuracy, top_k,
                       scores.top_k, scores.loss);
  }
  std::string result(const std::optional<Scores>& test) const override {
    return "test accuracy " + (test ? fmt::format("{:.4f}", test->accuracy) : "not measured");
  }

 private:
  static TrainedModel trained(keel_examples::Classifier classifier) {
    return {.loss = classifier.loss,
            .measured = {.inputs = {classifier.image, classifier.label},
                         .output = classifier.logits,
                         .label = classifier.label},
            .own_update = std::move(classifier.update),
            .made = {}};
  }

  std::shared_ptr<const ChosenModel> model_;
  keel::LabelledSplits data_;
  keel_examples::ImageFormat format_;
  std::map<std::string, std::string> columns_;  // of a table, as metadata
};

}  // namespace

std::unique_ptr<TrainTask> make_classifier_task(std::shared_ptr<const ChosenModel> model,
                                                const std::string& data, const std::string& label) {
  return std::make_unique<ClassifierTask>(std::move(model), data, label);
}

}  // namespace keel_cli
