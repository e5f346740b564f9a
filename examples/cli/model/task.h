// TrainTask: what `keel train` trains: a model, the items that it is trained and measured on, and
// how its scores read. TaskKind: a value of --model, and how a task of it is made. A task owns its
// data; one thread at a time.
#ifndef KEEL_EXAMPLES_CLI_MODEL_TASK_H
#define KEEL_EXAMPLES_CLI_MODEL_TASK_H

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "cli/model/chosen_model.h"
#include "cli/model/evaluation.h"

namespace keel_cli {

// A task's model in a graph.
struct TrainedModel {
  keel::Value loss;  // f32, the mean over a batch, as in training
  Measured measured;
  keel::Update own_update = {};  // that the model brings, where it was asked for
  // Something that the model makes, for TrainTask::picture; not valid where it makes nothing.
  keel::Value made;
};

class TrainTask {
 public:
  virtual ~TrainTask() = default;

  // Which data these are, in words.
  virtual std::string origin() const = 0;
  // Returns what the items are called in messages, in the plural: "images".
  virtual std::string items() const = 0;
  // All of them, in order; those that --validation keeps aside are the last.
  virtual keel::Dataset training_items() const = 0;
  virtual keel::Dataset test_items() const = 0;
  // How many training items before those kept aside share data with them, and are left out.
  virtual int64_t overlap() const { return 0; }
  // [height, width, channels] of the items where they are images; else of rank 0.
  virtual keel::Shape image_shape() const { return {}; }
  // SHA-256 of the data of all training items.
  virtual std::string data_sha256() const = 0;
  // The same of the test's items.
  virtual std::string test_sha256() const = 0;

  virtual TrainedModel build(keel::Graph& graph) const = 0;
  // The same with the update that the model brings; one that brings none is built as by build().
  virtual TrainedModel build_with_own_update(keel::Graph& graph) const { return build(graph); }
  // Returns the values that the states begin with, by name, of a model that comes from a file.
  virtual const std::map<std::string, keel::Tensor>& weights() const;
  // Adds to `metadata` what a saved file says of the data, for the commands that load it.
  virtual void add_metadata(std::map<std::string, std::string>& metadata) const = 0;

  // Returns what the scores of the test are introduced by when they are printed: "test".
  virtual std::string test_name() const { return "test"; }
  // "accuracy 0.9123, top-5 0.9951, loss 0.3021".
  virtual std::string describe(const Scores& scores, int64_t top_k) const = 0;
  // "test accuracy 0.9123"; nothing where the test was not measured.
  virtual std::string result(const std::optional<Scores>& test) const = 0;
  // TrainedModel::made, drawn in characters.
  virtual std::string picture(const keel::Tensor& made) const;
};

enum class TaskData {
  kImagesOrTable,  // the built-in digits, a folder of images, a CSV file
  kImages,         // the same without the last
  kText            // any file
};

struct TaskKind {
  std::string name;
  TaskData data = TaskData::kImagesOrTable;
  bool labelled = true;               // judged by accuracy, too
  std::string optimizer;              // that does well with it
  double sgd_rate = 0;                // a learning rate that plain descent does well with
  double adam_rate = 0.001;           // a learning rate that adam and its kin do well with
  std::string schedule = "constant";  // of the rate
  int64_t batch = 100;
  std::shared_ptr<const ChosenModel> model = {};  // of a classifier; else null
  // Loads the data. Throws keel::Error for data that are none of it. `label` as of load_data.
  std::function<std::unique_ptr<TrainTask>(const std::string& data, const std::string& label)> make;

  bool has_own_update() const { return model && model->with_own_update; }
};

// The built-in ones.
const std::vector<TaskKind>& task_kinds();
std::vector<std::string> task_names();
// Returns a built-in kind, or that of a model's file. Throws keel::Error that names the choices,
// and what choose_model throws.
std::shared_ptr<const TaskKind> find_task_kind(const std::string& name);

std::unique_ptr<TrainTask> make_classifier_task(std::shared_ptr<const ChosenModel> model,
                                                const std::string& data, const std::string& label);
std::unique_ptr<TrainTask> make_vae_task(const std::string& data);
std::unique_ptr<TrainTask> make_charlm_task(const std::string& data);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_TASK_H
